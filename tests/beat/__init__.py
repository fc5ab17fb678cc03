"""Beat: grids, cursors, ticks by a clock that tests move, and real beats."""
