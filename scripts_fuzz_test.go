package fairsem

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// No data from the network may bring the client down, or make it rely on more than it says.

// wakeMessage builds a message as the scripts do.
func wakeMessage(ownerKey string, epoch int64, grants []grant) string {
	var notes []string
	for _, g := range grants {
		notes = append(notes, fmt.Sprintf("%d:%d:%d", g.seq, g.place, g.token))
	}
	return fmt.Sprintf("%s %d %s", strings.Join(notes, ","), epoch, ownerKey)
}

func FuzzParseWake(f *testing.F) {
	const top = 1<<53 - 1
	space := keyspace{prefix: "fairsem"}
	for _, seed := range []string{
		"", " ", "1:2:3", "1:2:3 ", "1:2:3 4 fairsem:{a}:owner", "1:2:3,4:5:6 4 fairsem:{a}:owner", "1:2:3, 4 fairsem:{a}:owner",
		"1:2 4 fairsem:{a}:owner", "1:2:3:4 4 fairsem:{a}:owner", ":: 4 fairsem:{a}:owner", "x:2:3 4 fairsem:{a}:owner",
		"-1:-2:-3 fairsem:{a}:owner", "1:2:99999999999999999999 4 fairsem:{a}:owner", "1:2:1e3 4 fairsem:{a}:owner",
		"1:2:3 4 fairsem:{}:owner", "1:2:3 x fairsem:{a}:owner", "1:2:3 fairsem:{a}:owner", "1:2:3  fairsem:{a}:owner", "1:2:3 4 fairsem:{a}:queue", "1:2:3 4 other:{a}:owner", "1:2:3 4 fairsem:{a b}:owner",
		"1:2:3 4 fairsem:{}}:owner", "1:2:3 4 fairsem:{a}:owner}:owner", "1:2:3 4 fairsem:{\x00}:owner",
	} {
		f.Add(seed, "a name", int64(1), int64(top), int64(top))
	}
	f.Add("", "a}:owner b", int64(9), int64(8), int64(7))
	f.Fuzz(func(t *testing.T, payload, name string, seq, place, token int64) {
		if name, epoch, grants, ok := space.parseWake(payload); ok {
			list, rest, _ := strings.Cut(payload, " ")
			_, key, _ := strings.Cut(rest, " ")
			require.NotEmpty(t, grants)
			require.Equal(t, space.keys(name)[0], key, "it is about another key")
			require.Len(t, grants, 1+strings.Count(list, ","))
			again, sameEpoch, same, ok := space.parseWake(wakeMessage(key, epoch, grants))
			require.True(t, ok)
			require.Equal(t, epoch, sameEpoch)
			require.Equal(t, name, again)
			require.Equal(t, grants, same)
		} else {
			require.Empty(t, name)
			require.Empty(t, grants)
		}

		if checkName(name) != nil {
			return
		}
		want := []grant{{seq, place, token}, {token, seq, 0}}
		gotName, epoch, got, ok := space.parseWake(wakeMessage(space.keys(name)[0], place, want))
		require.True(t, ok)
		require.Equal(t, place, epoch)
		require.Equal(t, name, gotName)
		require.Equal(t, want, got)
	})
}

// lobby is a client that reaches no Redis, with a ticket in each phase on one name. All are busy, so nothing is sent.
type lobby struct {
	client *Client
	all    [phases]*ticket
}

const (
	phases    = int(removed)      // in which a ticket is known
	lobbySeq  = 40                // of the first ticket
	lobbyAt   = 1_700_000_000_000 // the position of the waiter
	lobbyTime = 4                 // the epoch
	lobbyName = "a name"
)

func newLobby(t *testing.T) *lobby {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{
		Dialer:                   func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("offline") },
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	c, err := New(rdb, Options{})
	require.NoError(t, err)
	t.Cleanup(func() {
		c.scheduler.close()
		c.goroutines.close()
		require.NoError(t, rdb.Close())
	})
	v, err := c.stateOf(lobbyName)
	require.NoError(t, err)
	v.mu.Lock()
	defer v.mu.Unlock()
	l := &lobby{client: c}
	for i := range l.all {
		one := &ticket{
			state: v, seq: lobbySeq + int64(i), id: c.keyspace.ticketID(lobbySeq + int64(i)), weight: 1, params: acquireParams{ttl: time.Hour},
			values: background, done: make(chan struct{}), released: make(chan struct{}), phase: phase(i), busy: true,
			epoch: lobbyTime,
		}
		one.lease = window{sent: instant{Time: time.Now()}, ttl: time.Hour}
		v.tickets[one.seq], l.all[i] = one, one
	}
	v.moveLocked(l.all[waiting], waiting)
	l.all[waiting].position = lobbyAt
	l.all[holding].token = 1
	return l
}

// seen is what a message could change of a ticket.
type seen struct {
	phase         phase
	place, token  int64
	recheck, done bool
}

func (l *lobby) look() (now [phases]seen) {
	v := l.all[0].state
	v.mu.Lock()
	defer v.mu.Unlock()
	for i, t := range l.all {
		now[i] = seen{t.phase, t.position, t.token, t.recheck, false}
		select {
		case <-t.done:
			now[i].done = true
		default:
		}
	}
	return now
}

// Anyone who may publish can send this. Only a message that names the position of a waiter, or the token of a holder, counts.
func FuzzMessagesThatNameNoPlaceChangeNothing(f *testing.F) {
	const waits = lobbySeq + int64(waiting)
	key := keyspace{prefix: "fairsem"}.keys(lobbyName)[0]
	for seq := lobbySeq - 1; seq <= lobbySeq+phases; seq++ {
		for _, place := range []int64{0, -1, 1, lobbyAt - 1, lobbyAt, lobbyAt + 1, -lobbyAt} {
			for _, token := range []int64{0, 1, -1, lobbyAt} {
				f.Add(lobbyName, int64(lobbyTime), int64(seq), place, token, "")
			}
		}
	}
	for _, end := range []string{" ", "0", "}", ":", ",", "\x00", " " + key} {
		f.Add(lobbyName, int64(lobbyTime), waits, int64(lobbyAt), int64(5), end)
	}
	f.Add("another", int64(lobbyTime), waits, int64(lobbyAt), int64(5), "")
	f.Add(lobbyName, int64(lobbyTime-1), waits, int64(lobbyAt), int64(5), "")
	f.Fuzz(func(t *testing.T, name string, epoch, seq, place, token int64, end string) {
		l := newLobby(t)
		before := l.look()
		forged := wakeMessage(l.client.keyspace.keys(name)[0], epoch, []grant{{seq, place, token}}) + end
		l.client.wake.handleMessage(&redis.Message{Payload: forged})
		if _, _, _, ok := l.client.keyspace.parseWake(end); !ok {
			l.client.wake.handleMessage(&redis.Message{Payload: end})
		}
		if name == lobbyName && end == "" {
			switch {
			case seq == waits && place == lobbyAt && token == 0:
				before[waiting].recheck = true
			case seq == waits && place == lobbyAt && epoch == lobbyTime:
				before[waiting] = seen{holding, lobbyAt, token, false, true}
			case seq == waits+1 && place == before[holding].token && token == 0:
				before[holding].recheck = true
			}
		}
		require.Equal(t, before, l.look(), "%q", forged)
	})
}

// EARLY was taken for a grant: the permit would have been relied on, and Redis did not have it.
func TestHolderThatExpiredPermitsKeepOutIsAskedAboutAgain(t *testing.T) {
	t.Parallel()
	l := newLobby(t)
	holder := l.all[holding]
	v := holder.state
	v.mu.Lock()
	defer v.mu.Unlock()
	holder.permit = newPermit(holder, time.Now())
	before := holder.lease
	v.learnLocked(restoreScript, holder, result{stateEarly, 0}, lobbyTime+1, v.client.clock.now())
	require.Equal(t, before, holder.lease, "it was renewed")
	require.Equal(t, int64(lobbyTime), holder.epoch, "it was confirmed")
	require.Equal(t, holding, holder.phase)
	require.NoError(t, holder.permit.ended())
	require.True(t, holder.recheck, "nobody asks again")
}

// someNumbers makes a reply from bytes: most of the numbers are small, as states are.
func someNumbers(data []byte) []int64 {
	list := make([]int64, len(data))
	for i, b := range data {
		list[i] = int64(b) - 20
		if b > 250 {
			list[i] = int64(b) << 55
		}
	}
	return list
}

func FuzzDecodeReply(f *testing.F) {
	for _, seed := range [][]byte{
		nil,
		{30, 31},
		{30, 31, 20, 25, 24},
		{30, 31, 20, 25, 24, 21, 99},
		{30, 31, 20, 25, 24, 21, 99, 21, 22, 23},
		{30, 31, 20, 25, 24, 21, 99, 22, 98, 21, 22, 23, 24, 25, 26},
		{30, 31, 20, 25, 24, 21, 99, 22},
		{30, 31, 20, 25, 24, 21, 99, 21, 22},
		{30, 31, 20, 25, 24, 253, 99},
		{30, 31, 20, 25, 24, 10, 99},
		{30, 31, 20, 25, 24, 20, 20, 20, 20, 20, 20, 20, 20},
	} {
		for n := range uint8(3) {
			f.Add(seed, n)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, n uint8) {
		raw := someNumbers(data)
		r, err := decodeReply(raw, int(n))
		require.Equal(t, isReply(raw, int(n)), err == nil)
		if err == nil {
			require.Equal(t, raw[0], r.since)
			require.Len(t, r.results, int(n))
			require.Len(t, raw, head+2*len(r.results)+3*len(r.grants))
			for i, res := range r.results {
				require.Equal(t, raw[head+2*i:][:2], []int64{int64(res.state), res.number})
			}
			for i, g := range r.grants {
				require.Equal(t, raw[head+2*int(n)+3*i:][:3], []int64{g.seq, g.place, g.token})
			}
		} else {
			require.ErrorIs(t, err, errReply)
			require.Empty(t, r.results)
			require.Empty(t, r.grants)
		}
	})
}

// isReply checks the same as decodeReply in another way: six numbers, two for each id, and then threes.
func isReply(raw []int64, n int) bool {
	for range n {
		if len(raw) < 8 || raw[6] < int64(stateGone) || raw[6] >= int64(states) {
			return false
		}
		raw = slices.Delete(slices.Clone(raw), 6, 8)
	}
	return len(raw) >= 6 && len(raw)%3 == 0
}

func FuzzDecodeStatus(f *testing.F) {
	for n := range 31 {
		f.Add(bytes.Repeat([]byte{30}, n))
	}
	f.Add([]byte{30, 31, 20, 25, 24, 30, 25, 25, 21, 22, 22, 255, 19, 22, 21, 28, 22, 99, 23, 24, 21, 20, 30, 40, 26, 31, 32, 33, 34})
	f.Fuzz(func(t *testing.T, data []byte) {
		raw := someNumbers(data)
		found, err := decodeStock(raw)
		require.Equal(t, len(raw) == 29, err == nil)
		if err != nil {
			require.ErrorIs(t, err, errReply)
			require.Zero(t, found)
			return
		}
		s, n := found.status("a name"), raw[6:]
		require.Equal(t, n[:2], []int64{s.Limit, s.Declared})
		require.Equal(t, n[2] == 1, s.Pinned)
		require.Equal(t, []int64{n[3] - n[8], n[4] - n[10], n[5] - n[9]}, []int64{s.Holders, s.Waiting, s.Used})
		require.GreaterOrEqual(t, max(n[12], 0), s.NextExpiry.Milliseconds())
		require.Equal(t, n[14] == 1, s.Exists)
		require.Equal(t, n[15], s.Granted)
		require.Equal(t, n[16]+n[17], s.Expired)
		require.Equal(t, n[19], s.At.UnixMicro())
		require.GreaterOrEqual(t, s.Pace, 0.0)
		require.Equal(t, s.Waiting != 0 && n[21] > 0 && n[22] > 0, s.Pace > 0)
	})
}

// someValues makes a list from bytes, with the types that go-redis returns.
func someValues(data []byte) []any {
	list := make([]any, len(data))
	for i, b := range data {
		switch {
		case b < 100:
			list[i] = int64(b) - 20
		case b < 200:
			list[i] = string(rune(b))
		case b < 220:
			list[i] = float64(b)
		case b < 240:
			list[i] = []any{int64(b)}
		}
	}
	return list
}

func FuzzDecodePage(f *testing.F) {
	for _, seed := range [][]byte{nil, {20}, {21}, {22}, {20, 106, 130, 31, 32}, {21, 106, 130, 31, 32, 106, 133, 34, 35}, {20, 30, 106, 31, 32}, {20, 106, 130, 31}, {20, 106, 30, 31, 32}, {20, 106, 130, 210, 32}, {250, 106, 130, 31, 32}} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		raw := someValues(data)
		for _, key := range []string{"owner", "queue"} {
			page, err := decodePage(raw, key)
			require.Equal(t, isPage(raw), err == nil)
			if err == nil {
				require.Len(t, raw, 1+4*len(page.tickets))
				require.Equal(t, raw[0] == int64(1), page.more)
				if n := len(raw); n > 1 {
					require.Equal(t, []any{raw[n-3], raw[n-4]}, []any{page.last.number, page.last.id})
				}
				for i, ticket := range page.tickets {
					require.Equal(t, []any{raw[1+4*i], raw[3+4*i]}, []any{ticket.ID, ticket.Weight})
				}
			} else {
				require.ErrorIs(t, err, errReply)
				require.Empty(t, page)
			}
		}
	})
}

func isPage(raw []any) bool {
	if len(raw) == 0 || raw[0] != int64(0) && raw[0] != int64(1) {
		return false
	}
	for i, v := range raw[1:] {
		kind := reflect.Int64
		if i%4 < 2 {
			kind = reflect.String
		}
		if v == nil || reflect.TypeOf(v).Kind() != kind {
			return false
		}
	}
	return len(raw)%4 == 1
}

// Acquire has neither a permit nor an error for an unknown state.
func TestReplyWithAnUnknownStateIsAnError(t *testing.T) {
	t.Parallel()
	for _, state := range []int64{-1, int64(states), 1 << 40} {
		_, err := decodeReply([]int64{1, 1, 0, 1, state, 7}, 1)
		assert.ErrorIs(t, err, errReply, "state %d", state)
	}
}

func FuzzNames(f *testing.F) {
	unused := redis.NewClient(&redis.Options{})
	f.Cleanup(func() { assert.NoError(f, unused.Close()) })
	for _, a := range []string{"a", "a}", "{a", "{}", "a}:owner", "a}:{b", " ", "\x00", "\xff", strings.Repeat("x", maxName)} {
		for _, b := range []string{"a", "b", "a}:queue", "}", ""} {
			f.Add("fairsem", a, b)
		}
	}
	f.Add("a", "a", "client")
	f.Add("a:{", "b", "b}")
	f.Fuzz(func(t *testing.T, prefix, a, b string) {
		if checkName(a) != nil || checkName(b) != nil || (Options{Prefix: prefix}).check(unused) != nil {
			return
		}
		space := keyspace{prefix: prefix, clientID: "6ba7b810-9dad-11d1-80b4-00c04fd430c8"}
		ours, theirs := space.keys(a), space.keys(b)
		require.Equal(t, a == b, ours == theirs)
		for i, key := range ours {
			require.Equal(t, slot(ours[0]), slot(key), "%q and %q are in different slots", ours[0], key)
			require.NotEqual(t, space.labelKey(space.clientID), key)
			for j, other := range theirs {
				require.Equal(t, a == b && i == j, key == other, "%q of %q is %q of %q", key, a, other, b)
			}
		}
		name, _, _, ok := space.parseWake("1:2:3 4 " + ours[0])
		require.True(t, ok)
		require.Equal(t, a, name)
	})
}

// slot returns the cluster slot of a key, by the rules of the Redis Cluster specification.
func slot(key string) uint16 {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			key = tag
		}
	}
	var crc uint16 // CRC-16/XMODEM
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			high := crc&0x8000 != 0
			if crc <<= 1; high {
				crc ^= 0x1021
			}
		}
	}
	return crc % 16384
}

// The test of the slots is only as good as this arithmetic; the numbers come from the specification.
func TestSlotIsTheSpecifiedOne(t *testing.T) {
	t.Parallel()
	assert.Equal(t, uint16(0x31C3%16384), slot("123456789"))
	assert.Equal(t, slot("user1000"), slot("{user1000}.following"))
	assert.Equal(t, slot("{bar"), slot("foo{{bar}}zap"))
	assert.Equal(t, slot("bar"), slot("foo{bar}{zap}"))
	assert.NotEqual(t, slot("bar"), slot("foo{}{bar}"))
}
