package chat

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Options configure OffloadHistory. The zero value has the defaults.
type Options struct {
	// MinChars is the least length, in UTF-16 code units, of a tool_result that is
	// offloaded. Nil means 100. An empty tool_result is never offloaded.
	MinChars *int
	// MinRatio is the part of the history's characters, 0 to 1, that must be
	// offloadable; otherwise the history stays unchanged. Nil or 0 disables this.
	MinRatio *float64
}

const defaultMinChars = 100

// Names of the environment variables that WithEnv reads.
const (
	EnvMinChars = "OFFLOAD_CHAR_THRESHOLD"
	EnvMinRatio = "OFFLOAD_RATIO_THRESHOLD"
)

// WithEnv returns the options with unset values from the environment; lookup is
// os.LookupEnv. It ignores an empty variable, and a variable that an option overrides.
// It returns an error for a variable that is not a number of its range; the options are
// valid even then, without that variable.
func (o Options) WithEnv(lookup func(string) (string, bool)) (Options, error) {
	var errs []error
	if text, ok := lookup(EnvMinChars); ok && text != "" && o.MinChars == nil {
		if n, err := strconv.Atoi(strings.TrimSpace(text)); err == nil && n >= 0 {
			o.MinChars = &n
		} else {
			errs = append(errs, fmt.Errorf("environment variable %s=%q: not a whole number of characters; set it to 100, say, or unset it", EnvMinChars, text))
		}
	}
	if text, ok := lookup(EnvMinRatio); ok && text != "" && o.MinRatio == nil {
		if ratio, err := strconv.ParseFloat(strings.TrimSpace(text), 64); err == nil && validRatio(ratio) {
			o.MinRatio = &ratio
		} else {
			errs = append(errs, fmt.Errorf("environment variable %s=%q: not a number from 0 to 1; set it to 0.2, say, or unset it", EnvMinRatio, text))
		}
	}
	return o, errors.Join(errs...)
}

// Validate refuses values outside their range.
func (o Options) Validate() error {
	if o.MinChars != nil && *o.MinChars < 0 {
		return fmt.Errorf("the least number of characters is %d; it must not be negative", *o.MinChars)
	}
	if o.MinRatio != nil && !validRatio(*o.MinRatio) {
		return fmt.Errorf("the least ratio is %v; it must be from 0 to 1", *o.MinRatio)
	}
	return nil
}

// validRatio refuses NaN as well.
func validRatio(r float64) bool { return r >= 0 && r <= 1 }
