package doctor

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// Checks of the server's latency and of its clock.

const (
	pings     = 20
	pingLimit = 10 * time.Second // after which a few must do
	roundTrip = 10               // a TTL should be so many of the slowest: see docs/failure-modes.md
)

func ping(ctx context.Context, p *target, n *node) Finding {
	var took []time.Duration
	for began := time.Now(); len(took) < pings && (time.Since(began) < pingLimit || len(took) == 0); {
		asked := time.Now()
		if err := n.rdb.Ping(ctx).Err(); err != nil {
			return notChecked(err, "+ping")
		}
		took = append(took, time.Since(asked))
	}
	return judgePings(took, p.TTL)
}

func judgePings(took []time.Duration, ttl time.Duration) Finding {
	slices.Sort(took)
	median, worst := took[len(took)/2], took[len(took)-1]
	found := ok("%v, the worst of %d %v", short(median), len(took), short(worst))
	if worst > ttl/roundTrip {
		found = warn(fmt.Sprintf("%v, the worst of %d %v: slow for a TTL of %v, permits may be lost to the network", short(median), len(took), short(worst), ttl),
			fmt.Sprintf("a TTL of %v or more, or a nearer server", atLeast(roundTrip*worst)))
	}
	return found.with("median_ms", millis(median)).with("worst_ms", millis(worst))
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

const (
	clockSamples = 5
	clockApart   = time.Second // which people notice in logs
)

// clock compares the server's clock with this machine's. The answer was made between question and arrival, so
// it is as exact as that was quick.
func clock(ctx context.Context, _ *target, n *node) Finding {
	var ahead, within time.Duration
	for i := range clockSamples {
		asked := time.Now()
		server, err := n.rdb.Time(ctx).Result()
		if err != nil {
			return notChecked(err, "+time")
		}
		half := time.Since(asked) / 2
		if i == 0 || half < within {
			ahead, within = server.Sub(asked.Add(half)), half
		}
	}
	return judgeClock(ahead, within)
}

func judgeClock(ahead, within time.Duration) Finding {
	side := "ahead of"
	if ahead < 0 {
		side = "behind"
	}
	message := fmt.Sprintf("the server is %v %s this machine, give or take %v", short(ahead.Abs()), side, short(within))
	if ahead.Abs() <= within {
		message = fmt.Sprintf("as on this machine, give or take %v", short(within))
	}
	found := ok("%s", message)
	if ahead.Abs()-within > clockApart {
		found = warn(message+": leases are not affected, because only the server's clock counts, but timestamps differ, and cron jobs of several machines start at different times",
			"NTP on both; for such jobs fairsem run --min-hold of more than that")
	}
	return found.with("ahead_ms", millis(ahead)).with("within_ms", millis(within))
}

const (
	slowEntries = 1000 // more than most servers keep
	slowSince   = time.Hour
)

// slow finds commands that blocked the server. Their arguments are not shown: they can be anything. A log that is full may not reach back
// as far as it is to look.
func slow(ctx context.Context, p *target, n *node) Finding {
	entries, err := n.rdb.SlowLogGet(ctx, slowEntries).Result()
	if err != nil {
		return notChecked(err, "+slowlog")
	}
	var worst time.Duration
	var what string
	for _, e := range entries {
		if e.Duration > worst && time.Since(e.Time) < slowSince && len(e.Args) > 0 {
			worst, what = e.Duration, strings.ToUpper(e.Args[0])
		}
	}
	if worst > p.TTL/roundTrip {
		return warn(fmt.Sprintf("a command took %v within the last hour, %s: it blocks all others, and is slow for a TTL of %v", short(worst), text.Brief(what), p.TTL),
			"SLOWLOG GET shows it; keep long commands and scripts off this server")
	}
	set := n.settings(ctx, logsFrom, logLength)
	if hidden := hiddenSlow(set, p.TTL/roundTrip); hidden != "" {
		return skip("not checked: %s", hidden)
	}
	span := "hour"
	if reach := n.logReaches(entries); reach < slowSince {
		span = text.Ago(reach) + ", as far as its log reaches back"
	}
	if worst == 0 {
		return ok("no slow command in the last %s", span)
	}
	return ok("the slowest command took %v, in the last %s", short(worst), span).with("worst_ms", millis(worst))
}

// logReaches returns how far back the slow log reaches: to the start of the server, or to the oldest entry that was read if there were older
// ones. Entries are numbered from 0.
func (n *node) logReaches(entries []redis.SlowLog) time.Duration {
	reach := time.Duration(math.MaxInt64)
	if uptime, err := strconv.ParseInt(n.info["uptime_in_seconds"], 10, 64); err == nil {
		reach = time.Duration(uptime+1) * time.Second
	}
	if last := len(entries) - 1; last >= 0 && entries[0].ID > int64(last) {
		reach = min(reach, time.Since(entries[last].Time))
	}
	return reach
}

const (
	logsFrom  = "slowlog-log-slower-than" // us
	logLength = "slowlog-max-len"
)

// hiddenSlow says why the slow log may lack a command that took longer than that, or "". Settings that are not known are taken as good.
func hiddenSlow(set map[string]string, slow time.Duration) string {
	from, err := strconv.ParseInt(set[logsFrom], 10, 64)
	switch {
	case set[logLength] == "0":
		return "the server keeps no slow log, because " + logLength + " is 0"
	case err != nil:
		return ""
	case from < 0:
		return fmt.Sprintf("the server keeps no slow log, because %s is %d", logsFrom, from)
	case from > slow.Microseconds():
		return fmt.Sprintf("the slow log has only what takes %d us or more, as %s says; for this TTL %v is slow", from, logsFrom, short(slow))
	}
	return ""
}
