package fairsem_test

const workerEnv = "FAIRSEM_TEST_WORKER"

func worker(string) int { return 0 }
