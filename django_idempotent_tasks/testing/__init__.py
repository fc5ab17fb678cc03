"""For the tests of projects and stores: nothing here is imported by the product itself."""
