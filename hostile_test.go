package fairsem

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/clock"
	"github.com/fairsem/fairsem/internal/protocol"
	"github.com/fairsem/fairsem/internal/testclient"
)

// Nothing that other programs store or publish crashes a client, or makes it trust more than Redis confirms.

// offlineClient is a client that cannot reach Redis, with one ticket in each phase on one name. All tickets are busy, so nothing is
// sent.
type offlineClient struct {
	client *Client
	all    [phases]*ticket
}

const (
	phases   = int(removed)      // in which the client still has a ticket
	firstSeq = 40                // of the first ticket
	waiterAt = 1_700_000_000_000 // the position of the waiter
	theEpoch = 4                 // the epoch
	theName  = "a name"
)

func newOfflineClient(t *testing.T) *offlineClient {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{
		Dialer:                   func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("offline") },
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	c, err := New(rdb, Options{})
	require.NoError(t, err)
	t.Cleanup(func() {
		c.scheduler.close()
		c.goroutines.Close()
		require.NoError(t, rdb.Close())
	})
	v, err := c.stateOf(theName)
	require.NoError(t, err)
	v.mu.Lock()
	defer v.mu.Unlock()
	l := &offlineClient{client: c}
	for i := range l.all {
		one := &ticket{
			state: v, seq: firstSeq + int64(i), id: c.keyspace.TicketID(firstSeq+int64(i), "", false), weight: 1, opts: new(CallOptions), ttl: time.Hour,
			values: background, done: make(chan struct{}), phase: phase(i), busy: true,
			epoch: theEpoch,
		}
		one.lease = window{sent: clock.Instant{Time: time.Now()}, ttl: time.Hour}
		v.tickets[one.seq], l.all[i] = one, one
	}
	v.moveLocked(l.all[waiting], waiting)
	l.all[waiting].position = waiterAt
	l.all[holding].token = 1
	return l
}

// ticketState is what a message could change of a ticket.
type ticketState struct {
	phase           phase
	position, token int64
	recheck, done   bool
}

func (l *offlineClient) snapshot() (now [phases]ticketState) {
	v := l.all[0].state
	v.mu.Lock()
	defer v.mu.Unlock()
	for i, t := range l.all {
		now[i] = ticketState{t.phase, t.position, t.token, t.recheck, false}
		select {
		case <-t.done:
			now[i].done = true
		default:
		}
	}
	return now
}

// Every program that may publish can send such messages. A message counts only if it names the position of a waiter or the token of
// a holder.
func FuzzMessagesWithoutAPositionOrTokenChangeNothing(f *testing.F) {
	const waits = firstSeq + int64(waiting)
	key := protocol.DefaultKeyspace.Keys(theName)[0]
	for seq := firstSeq - 1; seq <= firstSeq+phases; seq++ {
		for _, position := range []int64{0, -1, 1, waiterAt - 1, waiterAt, waiterAt + 1, -waiterAt} {
			for _, token := range []int64{0, 1, -1, waiterAt} {
				f.Add(theName, int64(theEpoch), int64(seq), position, token, "")
			}
		}
	}
	for _, end := range []string{" ", "0", "}", ":", ",", "\x00", " " + key} {
		f.Add(theName, int64(theEpoch), waits, int64(waiterAt), int64(5), end)
	}
	f.Add("another", int64(theEpoch), waits, int64(waiterAt), int64(5), "")
	f.Add(theName, int64(theEpoch-1), waits, int64(waiterAt), int64(5), "")
	f.Fuzz(func(t *testing.T, name string, epoch, seq, position, token int64, end string) {
		l := newOfflineClient(t)
		before := l.snapshot()
		forged := wakeMessage(l.client.keyspace.Keys(name)[0], epoch, []protocol.Grant{grantAt(seq, position, token)}) + end
		l.client.receive(forged)
		if name == theName && end == "" {
			switch {
			case seq == waits && position == waiterAt && token == 0:
				before[waiting].recheck = true
			case seq == waits && position == waiterAt && epoch == theEpoch:
				before[waiting] = ticketState{holding, waiterAt, token, false, true}
			case seq == waits+1 && position == before[holding].token && token == 0:
				before[holding].recheck = true
			}
		}
		require.Equal(t, before, l.snapshot(), "%q", forged)
	})
}

// Guards against EARLY treated as a grant: the client would have relied on a permit that Redis did not have.
func TestHolderThatCannotBeRestoredYetIsCheckedAgain(t *testing.T) {
	t.Parallel()
	l := newOfflineClient(t)
	holder := l.all[holding]
	v := holder.state
	v.mu.Lock()
	defer v.mu.Unlock()
	holder.hold.begin(v.host.clock, time.Now(), time.Now(), holder.lease)
	now := v.host.clock.Now()
	before := holder.lease
	v.learnLocked(holder, answer{protocol.RestoreScript, protocol.Result{State: protocol.Early}, theEpoch + 1, 0, now, now})
	require.Equal(t, before, holder.lease, "the lease was renewed")
	require.Equal(t, int64(theEpoch), holder.epoch, "the epoch was confirmed")
	require.Equal(t, holding, holder.phase)
	require.NoError(t, holder.hold.ended())
	require.True(t, holder.recheck, "no other query follows")
}

// Guards against two comparisons that accepted times beyond the largest valid one: a name kept a limit of 0 forever.
func TestNameWorksAgainAfterADeclarationAtTheEndOfTime(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		for _, since := range []int64{1<<52 - 1, 1 << 52, 1<<52 + 1, protocol.MaxUnits} {
			try := func(s *Semaphore) bool {
				p, err := s.TryAcquire(t.Context(), 1)
				return err == nil && p.Release(t.Context()) == nil
			}
			for hang := time.Now().Add(time.Minute); ; {
				s, keys := unusedName(t, rdb, 2)
				require.NoError(t, rdb.HSet(background, keys[5], "declared", 0, "layout", protocol.Layout, "since", since).Err())
				began := time.Now()
				works := try(s)
				if !works && time.Since(began) > time.Second/2 && time.Now().Before(hang) {
					continue // a limit that was first used a second before the call arrives is older than that declaration
				}
				require.Eventually(t, func() bool { return works || try(s) }, time.Minute, 10*time.Millisecond, "since %d", since)
				break
			}
		}
	})
}

// Guards against a name that fails forever, and against a client that polls it 6,000 times a second.
func TestNameWorksAgainWhateverItsMetaContains(t *testing.T) {
	t.Parallel()
	rdb := testclient.Settled(t)
	addr := rdb.Options().Addr
	future := fmt.Sprint(time.Now().AddDate(500, 0, 0).UnixMicro())
	for _, field := range protocol.MetaFields {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			calls := &CountedCalls{}
			own := redis.NewClient(&redis.Options{Addr: addr}) // go-redis writes to its options with each connection
			t.Cleanup(func() { assert.NoError(t, own.Close()) })
			own.AddHook(calls)
			c, err := New(own, Options{Prefix: "fairsem-test-" + uuid.NewString()})
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, c.Close()) })
			for i, value := range append(strange, future) {
				if field == "pinned" && value == "0" {
					continue // a pause
				}
				name := fmt.Sprint("name", i)
				s, err := c.Semaphore(name, 2)
				require.NoError(t, err)
				key := c.keyspace.Keys(name)[5]
				require.NoError(t, rdb.HSet(background, key, field, value).Err())
				require.NoError(t, rdb.Expire(background, key, time.Minute).Err())
				calls.Store(0)
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // exceeded only if the name does not work
				defer cancel()
				p, err := s.Acquire(ctx, 1)
				require.NoError(t, err, "%q", value)
				_, err = s.Status(ctx)
				require.NoError(t, err, "%q", value)
				for _, err := range s.Holders(ctx) {
					require.NoError(t, err, "%q", value)
				}
				released(t, p)
				assert.Less(t, calls.Load(), int64(30), "calls for %q", value)
			}
		})
	}
}

// A program that may PUBLISH can send messages before and after the genuine one.
func TestForgedMessageDoesNotDisplaceAnEarlyGenuineOne(t *testing.T) {
	forged, genuine := grantAt(1, 99, 60), grantAt(1, 5, 50)
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		a := asks(c, "a", 1, CallOptions{})[0]
		c.woken("a", 1, []protocol.Grant{genuine})
		c.woken("a", 1, []protocol.Grant{forged})
		w.carries("acquire a: 1").answers(1, -1, 0, 1, int64(protocol.Waiting), 5)
		assert.Equal(t, int64(50), a.tokenNow())
	})
}

func TestQueryReplacesAMessageThatAForgedOneDisplaced(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		a := asks(c, "a", 1, CallOptions{})[0]
		c.woken("a", 1, []protocol.Grant{grantAt(1, 99, 60)})
		c.woken("a", 1, []protocol.Grant{grantAt(1, 5, 50)})
		w.carries("acquire a: 1").answers(1, -1, 0, 1, int64(protocol.Waiting), 5)
		assert.Zero(t, a.tokenNow())
		w.carries("refresh a: 1").answers(1, -1, 0, 1, int64(protocol.Held), 50)
		assert.Equal(t, int64(50), a.tokenNow())
	})
}

// Guards against a list that never ends with numbers beyond an int64, and that omits entries with numbers below 1.
func TestEveryStoredEntryIsListed(t *testing.T) {
	t.Parallel()
	rdb := testclient.Settled(t)
	s, keys := unusedName(t, rdb, 1)
	var stored []string
	add := func(score float64, id string) {
		stored = append(stored, id)
		require.NoError(t, rdb.ZAdd(background, keys[0], redis.Z{Score: score, Member: id}).Err())
	}
	for i, score := range []float64{math.Inf(-1), -1e300, -5, 0, 0.5, 7, 1 << 53, 1e19, 1e300, math.Inf(1)} {
		for n := range 3 * pageSize / 10 {
			add(score, fmt.Sprintf("%02d:%04d", i, n))
		}
	}
	add(math.Inf(1), "99:"+strings.Repeat("x", 1<<20)) // fills a page
	add(math.Inf(1), "99:"+strings.Repeat("x", 1<<20)+"y")
	var listed []string
	for ticket, err := range s.Holders(t.Context()) {
		require.NoError(t, err)
		require.LessOrEqual(t, len(listed), len(stored), "the list does not end")
		listed = append(listed, ticket.ID)
		require.GreaterOrEqual(t, ticket.Token, int64(0))
	}
	assert.Equal(t, stored, listed)
}

// unusedName returns a semaphore of a client of its own, and its keys, which are deleted at the end.
func unusedName(t *testing.T, rdb *redis.Client, limit int64) (*Semaphore, [10]string) {
	t.Helper()
	c, err := New(rdb, Options{Prefix: "fairsem-test-" + uuid.NewString()})
	require.NoError(t, err)
	s, err := c.Semaphore("name", limit)
	require.NoError(t, err)
	keys := c.keyspace.Keys("name")
	t.Cleanup(func() {
		assert.NoError(t, c.Close())
		assert.NoError(t, rdb.Del(background, keys[:]...).Err())
	})
	return s, keys
}

// More entries have expired than one call counts, and not all of them in the order of the queue.
func TestStatusCountsAllExpiredEntries(t *testing.T) {
	t.Parallel()
	const expired = 3000
	rdb := testclient.Settled(t)
	s, keys := unusedName(t, rdb, 2*expired)
	var owner, queue, timeout []redis.Z
	for i := range expired {
		owner = append(owner, redis.Z{Score: 1, Member: fmt.Sprint("you:", i)})
		timeout = append(timeout, redis.Z{Score: 1, Member: fmt.Sprint("you:", i)})
	}
	for i := range 50 {
		queue = append(queue, redis.Z{Score: 1, Member: fmt.Sprintf("he:%02d", i)})
		timeout = append(timeout, redis.Z{Score: 1, Member: fmt.Sprintf("he:%02d", i)})
	}
	timeout[len(timeout)-1].Score = float64(rdb.Time(background).Val().Add(time.Minute).UnixMilli())
	for key, entries := range map[string][]redis.Z{keys[0]: owner, keys[1]: queue, keys[2]: timeout} {
		require.NoError(t, rdb.ZAdd(background, key, entries...).Err())
	}
	require.NoError(t, rdb.HSet(background, keys[5], "layout", protocol.Layout, "declared", 2*expired, "since", 7).Err())
	got, err := s.Status(t.Context())
	require.NoError(t, err)
	assert.Equal(t, [4]int64{0, 0, 1, expired}, [4]int64{got.Holders, got.Used, got.Waiting, got.Expired})
	assert.Positive(t, got.OldestWait)
	assert.InDelta(t, time.Minute, got.NextExpiry, float64(30*time.Second))
}

func TestShowingANameChangesNothing(t *testing.T) {
	t.Parallel()
	rdb := testclient.Settled(t)
	s, keys := unusedName(t, rdb, 9)
	dump := func() (all []string) {
		for _, key := range slices.Delete(slices.Clone(keys[:]), 2, 3) { // without the deadlines, which the client that holds the permit renews
			all = append(all, rdb.Dump(background, key).Val())
		}
		return all
	}
	read := func() {
		_, err := s.Status(t.Context())
		require.NoError(t, err)
		for _, list := range []iter.Seq2[Ticket, error]{s.Holders(t.Context()), s.Waiters(t.Context())} {
			for _, err := range list {
				require.NoError(t, err)
			}
		}
		for _, err := range s.Tenants(t.Context()) {
			require.NoError(t, err)
		}
	}
	read()
	assert.Zero(t, rdb.Exists(background, keys[:]...).Val())
	other, err := New(rdb, Options{Prefix: s.client.keyspace.Prefix})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, other.Close()) })
	one, err := other.Semaphore("name", 1)
	require.NoError(t, err)
	_, err = one.With(CallOptions{TTL: time.Hour}).Acquire(t.Context(), 1)
	require.NoError(t, err)
	before := dump()
	read()
	assert.Equal(t, before, dump())
}

// Values that another program may have stored where a number belongs.
var strange = []string{"nan", "-nan", "inf", "-inf", "1e300", "-1", "0", "1.5", "9e15", "9007199254740992", "99999999999999999999", "text", "", "0x10", " 7", "3/0", "3/99999999999999", "0/5", "7", "[[%a.-.-.-x"}
