package chat

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Options decide what OffloadHistory takes. The zero value has the defaults.
type Options struct {
	// MinChars is the length, in UTF-16 code units, from which a tool_result is
	// offloaded. Nil means 100. An empty one never is.
	MinChars *int
	// MinRatio is the part of the history's characters, 0 to 1, that must be
	// offloadable; if less is, the history stays as it is. Nil or 0 switches
	// this guard off.
	MinRatio *float64
}

const defaultMinChars = 100

// Names of the environment variables that WithEnv reads.
const (
	EnvMinChars = "OFFLOAD_CHAR_THRESHOLD"
	EnvMinRatio = "OFFLOAD_RATIO_THRESHOLD"
)

// WithEnv returns the options with what they leave open taken from the
// environment; lookup is os.LookupEnv. A variable that is empty counts as unset,
// one that an option overrides is not looked at. One that is no valid number
// counts as unset, too, and the error says so; the options are good nevertheless,
// as a slip in the environment is no reason to stop an agent's loop.
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

// Validate reports values that can only be mistakes.
func (o Options) Validate() error {
	if o.MinChars != nil && *o.MinChars < 0 {
		return fmt.Errorf("the least number of characters is %d; it can not be negative", *o.MinChars)
	}
	if o.MinRatio != nil && !validRatio(*o.MinRatio) {
		return fmt.Errorf("the least ratio is %v; it must be from 0 to 1", *o.MinRatio)
	}
	return nil
}

// validRatio refuses NaN as well.
func validRatio(r float64) bool { return r >= 0 && r <= 1 }

func (o Options) minChars() int {
	if o.MinChars == nil {
		return defaultMinChars
	}
	return *o.MinChars
}

func (o Options) minRatio() float64 {
	if o.MinRatio == nil {
		return 0
	}
	return *o.MinRatio
}
