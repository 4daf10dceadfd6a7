package pipeline

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem/internal/clock"
	"github.com/fairsem/fairsem/internal/failure"
	"github.com/fairsem/fairsem/internal/protocol"
)

// batch is the set of calls that one round trip carries.
type batch struct {
	pipeline *Pipeline
	sent     clock.Instant // before sending; a reply is trusted from this moment
	prepared []prepared
	ids      int // of its requests
	timeout  time.Duration
	done     atomic.Bool // answered or written off, whichever came first
}

// prepared is a request with its command.
type prepared struct {
	Request
	Command
	batch *batch
}

// cmd is the command as go-redis sends it. Instead of the script it names c, which go-redis has to ask for its bytes.
func (c *prepared) cmd() redis.Cmder {
	if c.Cmd != nil {
		return c.Cmd
	}
	cmd := c.Call.Command(c.withText)
	cmd.Args()[1] = c
	return cmd
}

// Replacements for the script of a call whose batch was written off: a hash that no script has, and a text that does nothing.
// An error instead would have go-redis close the connection, and where making one takes longer than a batch may, none would ever serve.
var (
	unknownHash = []byte(strings.Repeat("0", 40))
	emptyText   = []byte("return {}")
)

// MarshalBinary returns the hash of the script, or its text. go-redis calls it when it writes the command, which may be long after
// the batch was written off: it dials, waits for a connection and greets the server first. A script sent then may come after a tombstone
// has expired, and would make a grant without a holder.
func (c *prepared) MarshalBinary() ([]byte, error) {
	switch {
	case !c.batch.done.Load():
		return c.Call.Script.Source(c.withText), nil
	case c.withText:
		return emptyText, nil
	}
	return unknownHash, nil
}

// String is for hooks that record commands.
func (c *prepared) String() string { return string(c.Call.Script.Source(c.withText)) }

func newBatch(p *Pipeline, room int) *batch {
	return &batch{pipeline: p, sent: p.Clock.Now(), timeout: MaxTimeout, prepared: make([]prepared, 0, room)}
}

// add adds a request if it is still wanted.
func (b *batch) add(r Request) {
	c, timeout, wanted := r.Prepare(b.sent)
	if !wanted {
		return
	}
	b.prepared = append(b.prepared, prepared{r, c, b})
	b.ids += r.IDs()
	b.timeout = max(min(b.timeout, timeout), MinTimeout)
}

// deliver sends the batch and hands out the responses. It reports false if the batch was written off meanwhile, or if its
// sendLoop is no longer needed.
func (b *batch) deliver() (goesOn bool) {
	for b != nil {
		b, goesOn = b.exchange()
	}
	return goesOn
}

// exchange is one round trip of a delivery. Calls that the server requests in another form go into a batch of their own, so that a
// response that is there waits for no other.
func (b *batch) exchange() (rest *batch, goesOn bool) {
	timer := time.AfterFunc(b.timeout, b.writeOff)
	responses := b.pipeline.runDurable(b.prepared, b.timeout)
	timer.Stop() // not deferred: a hook of the user may end the goroutine, as FailNow of a test does
	again := b.inAnotherForm(responses)
	broke := b.pipeline.noteOutcome(worst(responses))
	if b.done.CompareAndSwap(false, true) {
		b.pipeline.pace(time.Since(b.sent.Time), b.timeout)
		if rest = b.next(again); rest == nil {
			goesOn = b.handOut(responses)
		} else {
			b.pass(responses)
		}
	}
	if broke {
		b.pipeline.Disconnected()
	}
	return rest, goesOn
}

// writeOff stops waiting for a batch: go-redis cannot be made to return from a read in time.
func (b *batch) writeOff() {
	if !b.done.CompareAndSwap(false, true) {
		return
	}
	err := b.pipeline.writtenOff(b.timeout)
	for _, r := range b.prepared {
		r.Done(Response{Err: err}, b.sent)
	}
	b.pipeline.takeOver()
}

// worst returns the error that says most about the server, nil if there is none. A refusal that no retry changes is about a name or a user:
// a call of another name must not name it as the cause of its own timeout.
func worst(responses []Response) (err error) {
	for _, r := range responses {
		if r.Err == nil || failure.Forbidden(r.Err) {
			continue
		}
		if err == nil || failure.IsConnection(r.Err) {
			err = r.Err
		}
		if failure.IsConnection(err) {
			break
		}
	}
	return err
}

// inAnotherForm returns the commands that the server asks for in another form: with the text of a script that it did not have, or
// the full script after a plain one. They were not executed, and each form comes once at most. Their responses are
// marked.
func (b *batch) inAnotherForm(responses []Response) (again []prepared) {
	for i, r := range responses {
		c := b.prepared[i]
		switch {
		case c.Cmd != nil:
			continue
		case failure.UnknownScript(r.Err) && !c.withText:
			c.withText = true
		case r.Err == nil && c.Otherwise != nil && c.Call.Script.Declined(r.Numbers):
			c.declined = true
		default:
			continue
		}
		responses[i] = Response{sentAgain: true}
		again = append(again, c)
	}
	return again
}

// next is the batch that sends these commands again, nil if there are none.
func (b *batch) next(again []prepared) *batch {
	if len(again) == 0 {
		return nil
	}
	next := &batch{pipeline: b.pipeline, sent: b.pipeline.Clock.Now(), prepared: again, timeout: b.timeout}
	for i, c := range again {
		next.ids += c.IDs()
		again[i].batch = next
		if c.declined {
			again[i].Command = Command{Call: c.Otherwise.Full()}
		}
	}
	return next
}

// run sends commands in one pipeline. A command with neither a value nor an error of its own was not answered. It gets
// the error of the pipeline, which may be a reply of Redis about the connection: then no command has an error.
func (p *Pipeline) run(pipe redis.Pipeliner, commands []redis.Cmder) []Response {
	responses := make([]Response, len(commands))
	_ = pipe.BatchProcess(p.Goroutines.Context, commands...) // only queues
	_, err := pipe.Exec(p.Goroutines.Context)
	err = failure.Discreet(err)
	none := err != nil && !slices.ContainsFunc(commands, func(c redis.Cmder) bool { return c.Err() != nil })
	for i, c := range commands {
		responses[i] = read(c, !none)
		switch {
		case !errors.Is(responses[i].Err, failure.ErrNoAnswer):
		case failure.Refused(err):
			responses[i].Err = err
		case err != nil:
			responses[i].Err = fmt.Errorf("%w: %w", failure.ErrNoAnswer, err)
		}
	}
	return responses
}

// read takes the response from a command. Whether it was answered is seen from its value, where it has one.
func read(c redis.Cmder, answered bool) Response {
	r := Response{Err: failure.Discreet(c.Err())}
	switch c := c.(type) {
	case protocol.Numbers:
		r.Numbers = c.Val()
		answered = r.Numbers != nil
	case protocol.Values:
		r.List = c.Val()
		answered = r.List != nil
	}
	switch {
	case r.Err == nil && !answered:
		r.Err = failure.ErrNoAnswer
	case answered && failure.IsMissing(r.Err):
		r.Err = nil // a label that does not exist
	}
	return r
}
