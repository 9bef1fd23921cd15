package retention

import "time"

// round is a part of the results stream.
type round struct {
	records []record
	async   map[string]bool // <session>.<call> of async results without a completion in this part
	newest  time.Time       // when the last record was stored
	next    uint64          // the sequence after the part
	last    bool            // no part follows
}

type record struct {
	sequence uint64
	session  string // token; empty if the record has none
	call     string // <session>.<call>
	size     int64  // in bytes, approximately
}
