/* A library that the tests link a plugin to and then leave where nobody looks for it. */
int absent_function(void);
int absent_function(void) { return 0; }
