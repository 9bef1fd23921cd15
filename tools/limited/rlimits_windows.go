package limited

import "time"

// Files does nothing: Windows has no such limit.
func Files(int64) error { return nil }

// CheckOpenFiles does nothing: Windows has no such limit.
func CheckOpenFiles() error { return nil }

func limitCPU(time.Duration) {}
