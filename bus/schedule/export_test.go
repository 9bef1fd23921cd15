package schedule

// CanonicalCron returns the canonical form of an expression.
func CanonicalCron(expression string) (string, error) { return cronFields(expression) }
