/* A library of activity records that this user may not use (CUPTI_ERROR_INSUFFICIENT_PRIVILEGES). */
int cuptiActivityRegisterCallbacks(void *requested, void *completed) { return 0; }
int cuptiActivityEnable(int kind) { return 35; }
int cuptiActivityDisable(int kind) { return 0; }
int cuptiActivityFlushAll(unsigned flag) { return 0; }
int cuptiActivityGetNextRecord(unsigned char *buffer, unsigned long valid, unsigned char **record) { return 12; }
int cuptiGetTimestamp(unsigned long *ns) { *ns = 0; return 0; }
