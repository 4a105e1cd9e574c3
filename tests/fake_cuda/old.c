// A CUDA driver from before cuGetProcAddress, for the tests of the loader.
int cuInit(unsigned flags) {
  (void)flags;
  return 0;
}
int cuDriverGetVersion(int* version) {
  *version = 11020;
  return 0;
}
