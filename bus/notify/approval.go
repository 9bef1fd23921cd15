package notify

import "time"

// Approval is the question of a notification that asks whether a call may run. A channel
// with buttons can show one for yes and one for no; their answer goes to
// task.AnswerApproval. The text of the notification asks the same.
type Approval struct {
	// Session and ID are the tokens of the call.
	Session string `json:"session"`
	ID      string `json:"id"`
	Tool    string `json:"tool"`
	// Args are the arguments as a text, or their start.
	Args string `json:"args,omitempty"`
	// Deadline is the time after which the answer is no.
	Deadline time.Time `json:"deadline"`
}
