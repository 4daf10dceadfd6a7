package protocol

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// No data from the network may crash the client, or make it trust more than the data says.

// wakeMessage builds a message as the scripts do.
func wakeMessage(ownerKey string, epoch int64, grants []Grant) string {
	var entries []string
	for _, g := range grants {
		entry := fmt.Sprintf("%d:%d:%d", g.Seq, g.Position, g.Token)
		if len(g.Numbers) > 0 {
			entry += ":" + strings.ReplaceAll(NumberList(g.Numbers), ",", ".")
		}
		entries = append(entries, entry)
	}
	return fmt.Sprintf("%s %d %s", strings.Join(entries, ","), epoch, ownerKey)
}

func FuzzParseWake(f *testing.F) {
	const top = 1<<53 - 1
	space := Keyspace{Prefix: "fairsem"}
	for _, seed := range []string{
		"", " ", "1:2:3", "1:2:3 ", "1:2:3 4 fairsem:{a}:owner", "1:2:3,4:5:6 4 fairsem:{a}:owner", "1:2:3, 4 fairsem:{a}:owner",
		"1:2 4 fairsem:{a}:owner", "1:2:3:4 4 fairsem:{a}:owner", "1:2:3:0.4.7,4:5:6 4 fairsem:{a}:owner", "1:2:3:4. 4 fairsem:{a}:owner", "1:2:3:-4 4 fairsem:{a}:owner", "1:2:3:4:5 4 fairsem:{a}:owner", ":: 4 fairsem:{a}:owner", "x:2:3 4 fairsem:{a}:owner",
		"-1:-2:-3 fairsem:{a}:owner", "1:2:99999999999999999999 4 fairsem:{a}:owner", "1:2:1e3 4 fairsem:{a}:owner",
		"1:2:3 4 fairsem:{}:owner", "1:2:3 x fairsem:{a}:owner", "1:2:3 fairsem:{a}:owner", "1:2:3  fairsem:{a}:owner", "1:2:3 4 fairsem:{a}:queue", "1:2:3 4 other:{a}:owner", "1:2:3 4 fairsem:{a b}:owner",
		"1:2:3 4 fairsem:{}}:owner", "1:2:3 4 fairsem:{a}:owner}:owner", "1:2:3 4 fairsem:{\x00}:owner",
	} {
		f.Add(seed, "a name", int64(1), int64(top), int64(top))
	}
	f.Add("", "a}:owner b", int64(9), int64(8), int64(7))
	f.Fuzz(func(t *testing.T, payload, name string, seq, position, token int64) {
		if name, epoch, grants, ok := space.ParseWake(payload); ok {
			list, rest, _ := strings.Cut(payload, " ")
			_, key, _ := strings.Cut(rest, " ")
			require.NotEmpty(t, grants)
			require.Equal(t, space.Keys(name)[0], key, "the name has another key")
			require.Len(t, grants, 1+strings.Count(list, ","))
			again, sameEpoch, same, ok := space.ParseWake(wakeMessage(key, epoch, grants))
			require.True(t, ok)
			require.Equal(t, epoch, sameEpoch)
			require.Equal(t, name, again)
			require.Equal(t, grants, same)
		} else {
			require.Empty(t, name)
			require.Empty(t, grants)
		}

		if CheckName(name) != nil {
			return
		}
		want := []Grant{{seq, position, token, nil}, {token, seq, 0, []int64{0, max(0, seq%MaxUnits)}}}
		gotName, epoch, got, ok := space.ParseWake(wakeMessage(space.Keys(name)[0], position, want))
		require.True(t, ok)
		require.Equal(t, position, epoch)
		require.Equal(t, name, gotName)
		require.Equal(t, want, got)
	})
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
		{30, 31, 20, 25, 24, 21, 21, 99},
		{30, 31, 20, 25, 24, 21, 21, 99, 21, 22, 23},
		{30, 31, 20, 25, 24, 21, 21, 99, 21, 22, 22, 19, 20, 22, 19, 27, 30, 31, 22},
		{30, 31, 20, 25, 24, 21, 21, 99, 21, 22, 22, 19, 19},
		{30, 31, 20, 25, 24, 21, 21, 99, 22, 98, 21, 22, 23, 24, 25, 26},
		{30, 31, 20, 25, 24, 21, 21, 99, 22},
		{30, 31, 20, 25, 24, 21, 21, 99, 21, 22},
		{30, 31, 20, 25, 24, 21, 21, 99, 21, 19},           // a token below 0
		{30, 31, 20, 25, 24, 21, 21, 99, 19, 22},           // a state below 0
		{30, 31, 20, 25, 24, 21, 21, 99, 28, 22},           // an unknown state
		{30, 31, 20, 25, 24, 21, 21, 99, 26, 251},          // too long to wait
		{30, 31, 20, 25, 24, 21, 21, 99, 21, 251},          // a large token
		{30, 251, 20, 25, 24, 21, 21, 99, 21, 22},          // too long to the next deadline
		{30, 31, 20, 25, 24, 21, 21, 99, 23, 252, 21, 253}, // too long to wait, after a refusal
		{30, 31, 20, 25, 24, 21, 253, 99},
		{30, 31, 20, 25, 24, 21, 10, 99},
		{30, 31, 20, 25, 24, 21, 20, 20, 20, 20, 20, 20, 20, 20},
	} {
		for n := range uint8(3) {
			f.Add(seed, n)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, n uint8) {
		raw := someNumbers(data)
		r, err := DecodeReply(raw, int(n))
		require.Equal(t, isReply(raw, int(n)), err == nil)
		if err == nil {
			require.Equal(t, raw[0], r.Since)
			require.Len(t, r.Results, int(n))
			for i, res := range r.Results {
				require.Equal(t, raw[Head+2*i:][:2], []int64{int64(res.State), res.Number})
			}
			checkGrants(t, raw[Head+2*int(n):], r)
		} else {
			require.ErrorIs(t, err, ErrReply)
			require.Empty(t, r.Results)
			require.Empty(t, r.Grants)
		}
	})
}

// checkGrants compares the grants and numbers of a reply with what it was decoded from.
func checkGrants(t *testing.T, raw []int64, r Reply) {
	t.Helper()
	numbers, grants := make(map[int64][]int64), r.Grants
	for part := range slices.Chunk(raw, 3) {
		if part[1] == -1 {
			numbers[part[0]] = append(numbers[part[0]], part[2])
			continue
		}
		require.NotEmpty(t, grants)
		require.Equal(t, part, []int64{grants[0].Seq, grants[0].Position, grants[0].Token})
		grants = grants[1:]
	}
	require.Empty(t, grants)
	for _, g := range r.Grants {
		require.Equal(t, numbers[g.Token], g.Numbers)
	}
	for _, res := range r.Results {
		if res.State == Held {
			require.Equal(t, numbers[res.Number], res.Numbers)
		} else {
			require.Empty(t, res.Numbers)
		}
	}
}

// isReply repeats the checks of DecodeReply in another way: Head numbers, two for each id, then three for each grant.
func isReply(raw []int64, n int) bool {
	for range n {
		if len(raw) < Head+2 || raw[Head] < int64(Gone) || raw[Head] >= int64(states) || raw[Head+1] < 0 {
			return false
		}
		if says := State(raw[Head]); (says == Early || says == Refused) && raw[Head+1] > 1<<43 {
			return false
		}
		raw = slices.Delete(slices.Clone(raw), Head, Head+2)
	}
	if len(raw) < Head || (len(raw)-Head)%3 != 0 || raw[1] > 1<<43 {
		return false
	}
	for i := Head; i < len(raw); i += 3 {
		if raw[i+1] == -1 && (raw[i+2] < 0 || raw[i+2] > MaxUnits) {
			return false
		}
	}
	return true
}

func FuzzDecodeStatus(f *testing.F) {
	for n := range 32 {
		f.Add(bytes.Repeat([]byte{30}, n))
	}
	f.Add([]byte{
		30, 31, 20, 25, 24, 32, 33, 34,
		60, 61, 21, 140, 141, 142, 63, 64, 65, 66, 67, 68, 69, 70, 20, 71, 72, 73, 74, 75, 76, 77, 255, // all different
	})
	f.Fuzz(func(t *testing.T, data []byte) {
		raw := someNumbers(data)
		found, err := DecodeStock(raw)
		require.Equal(t, len(raw) == Head+23, err == nil)
		if err != nil {
			require.ErrorIs(t, err, ErrReply)
			require.Zero(t, found)
			return
		}
		s, n := found.Status(), raw[Head:]
		require.Equal(t, n[:2], []int64{s.Limit, s.Declared})
		require.Equal(t, n[2] == 1, s.Pinned)
		require.Equal(t, []int64{n[3] - n[8], n[4] - n[10], n[5] - n[9]}, []int64{s.Holders, s.Waiting, s.Used})
		require.GreaterOrEqual(t, max(n[12], 0), s.NextExpiry.Milliseconds())
		if most := slices.Max(n[11:14]); most < 1<<40 { // as durations
			require.Equal(t, []int64{max(n[11], 0), max(n[12], 0), n[13]},
				[]int64{s.OldestWait.Microseconds(), s.NextExpiry.Milliseconds(), s.Window.Milliseconds()})
		}
		require.Equal(t, n[14] == 1, s.Exists)
		require.Equal(t, n[15], s.Granted)
		require.Equal(t, n[16]+n[17], s.Expired)
		require.Equal(t, n[19], s.At.UnixMicro())
		require.GreaterOrEqual(t, s.Pace, 0.0)
		require.Equal(t, s.Waiting != 0 && n[21] > 0 && n[22] >= 1_000_000, s.Pace > 0)
	})
}

// someValues makes a list from bytes, with the types that go-redis returns.
func someValues(data []byte) []any {
	list := make([]any, len(data))
	for i, b := range data {
		switch {
		case b == 0:
			list[i] = ""
		case b == 1:
			list[i] = "0,7"
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
	for _, seed := range [][]byte{nil, {20}, {21}, {22}, {20, 106, 130, 31, 32, 0}, {21, 106, 130, 31, 32, 0, 106, 133, 34, 35, 1}, {20, 30, 106, 31, 32, 0}, {20, 106, 130, 31, 32}, {20, 106, 30, 31, 32, 0}, {20, 106, 130, 210, 32, 0}, {250, 106, 130, 31, 32, 0}, {20, 106, 130, 31, 32, 106}} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		raw := someValues(data)
		{
			page, err := DecodePage(raw)
			require.Equal(t, isPage(raw), err == nil)
			if err == nil {
				require.Len(t, raw, 1+5*len(page.Entries))
				require.Equal(t, raw[0] == int64(1), page.More)
				if n := len(raw); n > 1 {
					require.Equal(t, []any{raw[n-4], raw[n-5]}, []any{page.Last.number, page.Last.id})
				}
				for i, ticket := range page.Entries {
					require.Equal(t, []any{raw[1+5*i], raw[3+5*i], raw[5+5*i]}, []any{ticket.ID, ticket.Weight, NumberList(ticket.Numbers)})
				}
			} else {
				require.ErrorIs(t, err, ErrReply)
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
		if i%5 < 2 || i%5 == 4 {
			kind = reflect.String
		}
		if i%5 == 4 && v != "" && v != "0,7" {
			return false
		}
		if v == nil || reflect.TypeOf(v).Kind() != kind {
			return false
		}
	}
	return len(raw)%5 == 1
}

func FuzzDecodeTenants(f *testing.F) {
	for _, seed := range [][]byte{
		nil, {0}, {106}, {20}, {106, 107, 30, 31, 32, 33, 34, 35}, {106, 107, 30, 31, 32, 33, 34, 35, 108, 40, 41, 42, 43, 44, 19},
		{106, 107, 30, 31, 32, 33, 34}, {106, 31, 30, 31, 32, 33, 34, 35}, {106, 107, 30, 31, 32, 33, 34, 110}, {106, 107, 210, 31, 32, 33, 34, 35},
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		raw := someValues(data)
		list, cursor, err := DecodeTenants(raw)
		require.Equal(t, isTenants(raw), err == nil)
		if err != nil {
			require.ErrorIs(t, err, ErrReply)
			require.Empty(t, list)
			return
		}
		require.Equal(t, raw[0], cursor)
		require.Len(t, raw, 1+7*len(list))
		for i, e := range list {
			require.Equal(t, raw[1+7*i:][:7], []any{e.Name, e.Share, e.Limit, e.Units, e.Permits, e.Waiting, e.Waited})
		}
	})
}

func isTenants(raw []any) bool {
	for i, v := range raw {
		kind := reflect.Int64
		if i == 0 || i%7 == 1 {
			kind = reflect.String
		}
		if v == nil || reflect.TypeOf(v).Kind() != kind {
			return false
		}
	}
	return len(raw)%7 == 1
}

// Acquire has neither a permit nor an error for an unknown state.
func TestReplyWithAnUnknownStateIsAnError(t *testing.T) {
	t.Parallel()
	for state, known := range map[int64]bool{-1: false, int64(states): false, 1 << 40: false, int64(Held): true} {
		_, err := DecodeReply([]int64{1, 1, 0, 1, 0, 1, 0, 0, state, 7}, 1)
		assert.Equal(t, known, err == nil, "state %d", state)
	}
}

func FuzzNames(f *testing.F) {
	for _, a := range []string{"a", "a}", "{a", "{}", "a}:owner", "a}:{b", " ", "\x00", "\xff", strings.Repeat("x", MaxName)} {
		for _, b := range []string{"a", "b", "a}:queue", "}", ""} {
			f.Add("fairsem", a, b)
		}
	}
	f.Add("a", "a", "client")
	f.Add("a:{", "b", "b}")
	f.Fuzz(func(t *testing.T, prefix, a, b string) {
		if CheckName(a) != nil || CheckName(b) != nil || prefix == "" || CheckPrefix(prefix) != nil {
			return
		}
		space := Keyspace{Prefix: prefix, ClientID: "k3X-9Q_7aZc"}
		ours, theirs := space.Keys(a), space.Keys(b)
		require.Equal(t, a == b, ours == theirs)
		for i, key := range ours {
			require.Equal(t, slot(ours[0]), slot(key), "%q and %q are in different slots", ours[0], key)
			require.NotEqual(t, space.LabelKey(space.ClientID), key)
			for j, other := range theirs {
				require.Equal(t, a == b && i == j, key == other, "%q of %q is %q of %q", key, a, other, b)
			}
		}
		name, _, _, ok := space.ParseWake("1:2:3 4 " + ours[0])
		require.True(t, ok)
		require.Equal(t, a, name)
		for i, key := range ours {
			parsed, name, kind, ok := ParseKey(key)
			require.Equal(t, []any{prefix, a, Kinds[i], true}, []any{parsed.Prefix, name, kind, ok})
		}
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

// FuzzNames relies on this computation. The expected numbers come from the specification.
func TestSlotMatchesTheSpecification(t *testing.T) {
	t.Parallel()
	assert.Equal(t, uint16(0x31C3%16384), slot("123456789"))
	assert.Equal(t, slot("user1000"), slot("{user1000}.following"))
	assert.Equal(t, slot("{bar"), slot("foo{{bar}}zap"))
	assert.Equal(t, slot("bar"), slot("foo{bar}{zap}"))
	assert.NotEqual(t, slot("bar"), slot("foo{}{bar}"))
}

func TestKeyOfNoNameIsNotParsed(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"", "a", "a:{", "a:{b}", "a:{b}:", "a:{}:owner", "a:{}b}:owner", "a:{b}:other", "a:{b}:owner:owner", "a{b}:owner", "}:owner", "}:{owner"} {
		_, _, _, ok := ParseKey(key)
		assert.False(t, ok, key)
	}
}

func TestCallerIsTheFirstArgumentOfAScript(t *testing.T) {
	t.Parallel()
	space := Keyspace{Prefix: "p", ClientID: "me"}
	command := make([]string, 0, 20)
	for _, arg := range Refresh(space.About("name"), Declaration{}, 0, false, tickets("me:1")).Args {
		command = append(command, fmt.Sprint(arg))
	}
	assert.Equal(t, "me", Caller(command))
	for n := range 10 {
		assert.Empty(t, Caller(command[:n]))
	}
	for _, keys := range []string{"1", "9", "12", "-1", "9223372036854775807", "x"} {
		command[2] = keys
		assert.Empty(t, Caller(command), "a script with other keys")
	}
	for _, s := range PlainScripts {
		assert.Less(t, len(s.keys)+1, len(Kinds), "a plain script in a cluster looks like a full one")
	}
	space.Cluster = true
	command = command[:0]
	for _, arg := range Refresh(space.About("name"), Declaration{}, 0, false, tickets("me:1")).Args {
		command = append(command, fmt.Sprint(arg))
	}
	assert.Equal(t, "me", Caller(command))
}
