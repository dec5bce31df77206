"""Where the parts are put together: the only room that names concrete ones."""
