package fairsem

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whatever arrives from the network must not bring the client down, nor make it believe in more than was said.

// wakeMessage is what tell() in line.lua and finish.lua make.
func wakeMessage(ownerKey string, grants []grant) string {
	var notes []string
	for _, g := range grants {
		notes = append(notes, fmt.Sprintf("%d:%d:%d", g.seq, g.place, g.token))
	}
	return strings.Join(notes, ",") + " " + ownerKey
}

func FuzzParseWake(f *testing.F) {
	const top = 1<<53 - 1
	space := keyspace{prefix: "fairsem"}
	for _, seed := range []string{
		"", " ", "1:2:3", "1:2:3 ", "1:2:3 fairsem:{a}:owner", "1:2:3,4:5:6 fairsem:{a}:owner", "1:2:3, fairsem:{a}:owner",
		"1:2 fairsem:{a}:owner", "1:2:3:4 fairsem:{a}:owner", ":: fairsem:{a}:owner", "x:2:3 fairsem:{a}:owner",
		"-1:-2:-3 fairsem:{a}:owner", "1:2:99999999999999999999 fairsem:{a}:owner", "1:2:1e3 fairsem:{a}:owner",
		"1:2:3 fairsem:{}:owner", "1:2:3 fairsem:{a}:queue", "1:2:3 other:{a}:owner", "1:2:3 fairsem:{a b}:owner",
		"1:2:3 fairsem:{a}:owner}:owner", "1:2:3 fairsem:{\x00}:owner",
	} {
		f.Add(seed, "a name", int64(1), int64(top), int64(top))
	}
	f.Add("", "}:owner", int64(0), int64(0), int64(0))
	f.Add("", "a}:owner b", int64(9), int64(8), int64(7))
	f.Fuzz(func(t *testing.T, payload, name string, seq, place, token int64) {
		if name, grants, ok := space.parseWake(payload); ok {
			list, key, _ := strings.Cut(payload, " ")
			require.NotEmpty(t, grants)
			require.Equal(t, space.keys(name)[0], key, "it is about another key")
			require.Len(t, grants, 1+strings.Count(list, ","))
			again, same, ok := space.parseWake(wakeMessage(key, grants))
			require.True(t, ok)
			require.Equal(t, name, again)
			require.Equal(t, grants, same)
		} else {
			require.Empty(t, name)
			require.Empty(t, grants)
		}

		want := []grant{{seq, place, token}, {token, seq, 0}}
		gotName, got, ok := space.parseWake(wakeMessage(space.keys(name)[0], want))
		require.True(t, ok)
		require.Equal(t, name, gotName)
		require.Equal(t, want, got)
	})
}

// someNumbers makes a reply out of bytes: most of the numbers are small, as states are.
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
		{30, 31, 20},
		{30, 31, 20, 21, 99},
		{30, 31, 20, 21, 99, 21, 22, 23},
		{30, 31, 20, 21, 99, 22, 98, 21, 22, 23, 24, 25, 26},
		{30, 31, 20, 21, 99, 22},
		{30, 31, 20, 21, 99, 21, 22},
		{30, 31, 20, 253, 99},
		{30, 31, 20, 20, 20, 20, 20, 20, 20, 20, 20},
	} {
		for n := range uint8(3) {
			f.Add(seed, n)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, n uint8) {
		raw := someNumbers(data)
		if r, err := decodeReply(raw, int(n)); err == nil {
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
		if s, err := decodeStatus("a name", raw); err == nil {
			require.Len(t, raw, head+8)
			require.Equal(t, raw[head:head+2], []int64{s.Limit, s.Declared})
		}
	})
}

// someValues makes a list out of bytes: of the types that go-redis returns.
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
	for _, seed := range [][]byte{nil, {106, 30, 31, 32}, {106, 30, 31, 32, 106, 33, 34, 35}, {30, 106, 31, 32}, {106, 30, 31}, {106, 30, 210, 32}, {250, 30, 31, 32}} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		raw := someValues(data)
		for _, key := range []string{"owner", "queue"} {
			if page, err := decodePage(raw, key); err == nil {
				require.Len(t, raw, 4*len(page))
				for i, ticket := range page {
					require.Equal(t, raw[4*i:4*i+3], []any{ticket.ID, ticket.Since.UnixMicro(), ticket.Weight})
				}
			} else {
				require.ErrorIs(t, err, errReply)
				require.Empty(t, page)
			}
		}
	})
}

// Acquire has neither a permit nor an error for a state that it does not know.
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
		name, _, ok := space.parseWake("1:2:3 " + ours[0])
		require.True(t, ok)
		require.Equal(t, a, name)
	})
}

// slot is the cluster slot of a key, by the rules of the Redis Cluster specification.
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

// The test of the slots is worth as much as its own arithmetic; the numbers are the specification's.
func TestSlotIsTheSpecifiedOne(t *testing.T) {
	t.Parallel()
	assert.Equal(t, uint16(0x31C3%16384), slot("123456789"))
	assert.Equal(t, slot("user1000"), slot("{user1000}.following"))
	assert.Equal(t, slot("{bar"), slot("foo{{bar}}zap"))
	assert.Equal(t, slot("bar"), slot("foo{bar}{zap}"))
	assert.NotEqual(t, slot("bar"), slot("foo{}{bar}"))
}
