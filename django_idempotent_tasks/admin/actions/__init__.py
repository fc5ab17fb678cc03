"""What a person does from a page of the admin: the question, the permission, the decision, the audit line."""
