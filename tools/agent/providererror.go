package agent

import "time"

// Codes of provider errors.
const (
	CodeBadKey          = "bad_key"          // the key is missing, wrong or not permitted
	CodeUnknownModel    = "unknown_model"    // the provider does not have the model
	CodeContextOverflow = "context_overflow" // the conversation is too long for the model
	CodeRateLimited     = "rate_limited"     // too many requests; temporary
	CodeOverloaded      = "overloaded"       // the provider failed; temporary
	CodeNoCredit        = "no_credit"        // the account has no credit
	CodeUnreachable     = "unreachable"      // the connection failed; temporary
	CodeBadRequest      = "bad_request"      // the provider rejected the request
	CodeBadAnswer       = "bad_answer"       // the provider's response cannot be decoded
	CodeScript          = "script"           // the script does not match the conversation
)

// ProviderError says why a provider returned no turn. Its text may be shown to
// users; it never contains the API key.
type ProviderError struct {
	Code string
	// Model that failed, as provider:model.
	Model string
	// Others are the failures of the other models of its list.
	Others []error
	// Status of the HTTP response; 0 if there was none.
	Status int
	// Message is the provider's own text.
	Message string
	// RetryAfter is how long the provider asked to wait; 0 if it did not.
	RetryAfter time.Duration
	// Retryable: the failure is temporary, so a later request may succeed.
	Retryable bool
}

func (e *ProviderError) Error() string {
	text := map[string]string{
		CodeBadKey:          "the API key is missing or was rejected; check it",
		CodeUnknownModel:    "the provider does not know the model; check its name",
		CodeContextOverflow: "the conversation is too long for the model",
		CodeRateLimited:     "the provider limits the rate of requests; try again later",
		CodeOverloaded:      "the provider failed; try again later",
		CodeNoCredit:        "the account has no credit",
		CodeUnreachable:     "the provider cannot be reached; check the address",
		CodeBadRequest:      "the provider rejected the request",
		CodeBadAnswer:       "the provider's answer cannot be decoded",
		CodeScript:          "the script does not match the conversation",
	}[e.Code]
	if e.Message != "" {
		text += ": " + e.Message
	}
	if e.Model != "" {
		text = e.Model + ": " + text
	}
	for _, other := range e.Others {
		text += "; " + other.Error()
	}
	return text
}
