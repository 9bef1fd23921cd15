package schedule

// CanonicalCron is what an expression becomes.
func CanonicalCron(expression string) (string, error) { return cronFields(expression) }
