//go:build !linux

package history

import "time"

// Now is a clock that all processes of this machine share, in nanoseconds: on Linux it does not
// follow the wall clock when that is set, elsewhere it is the wall clock. Package time has such a
// clock only within one process.
func Now() int64 { return time.Now().UnixNano() }
