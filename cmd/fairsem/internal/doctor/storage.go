package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// Checks of the server's data: eviction when memory is full, and persistence across a restart.

func eviction(info map[string]string) Finding {
	policy, most := info["maxmemory_policy"], info["maxmemory"]
	const advice = "CONFIG SET maxmemory-policy noeviction, and the same in redis.conf; or a server for fairsem alone"
	switch {
	case policy == "":
		return skip("not checked: the server does not report its policy")
	case policy == "noeviction":
		return ok("noeviction: no key is evicted").with("policy", policy)
	case most == "0":
		return warn(policy+", with no memory limit: no key is evicted until one is set", advice).with("policy", policy)
	case strings.HasPrefix(policy, "volatile-"):
		return fail(policy+": when memory is full, keys of semaphores are evicted, because they expire, and more is granted than the limit",
			advice).with("policy", policy)
	}
	return fail(policy+": when memory is full, keys of semaphores are evicted, and more is granted than the limit", advice).with("policy", policy)
}

// nearlyFull is the part of maxmemory that needs attention.
const nearlyFull = 0.9

func memory(info map[string]string) Finding {
	used, err := strconv.ParseUint(info["used_memory"], 10, 64)
	buffers, _ := strconv.ParseUint(info["mem_not_counted_for_evict"], 10, 64) // of replicas and the append-only file
	used -= min(used, buffers)
	most, err2 := strconv.ParseUint(info["maxmemory"], 10, 64)
	if err != nil || err2 != nil {
		return skip("not checked: the server does not report it")
	}
	return judgeMemory(float64(used), float64(most), info["maxmemory_policy"]).with("used", used).with("max", most)
}

func judgeMemory(used, most float64, policy string) Finding {
	const mb = 1 << 20
	const advice = "find out what uses it; raise maxmemory, or use a separate server for fairsem"
	part := fmt.Sprintf("%.1f of %.1f MB", used/mb, most/mb)
	switch {
	case most == 0:
		return ok("%.1f MB in use, without a limit", used/mb)
	case used >= most && policy != "noeviction":
		return fail(part+" in use: it is full, and keys are evicted", advice)
	case used >= most:
		return fail(part+" in use: it is full, and nothing new is granted; renewals and releases go on", advice)
	case used >= nearlyFull*most && policy != "noeviction":
		return warn(part+" in use: when it is full, keys are evicted", advice)
	case used >= nearlyFull*most:
		return warn(part+" in use: when it is full, nothing new is granted", advice)
	}
	return ok("%s in use", part)
}

// persistence reports the loss at a restart. None of it is a fault: processes restore their permits and positions.
func persistence(ctx context.Context, _ *target, n *node) Finding {
	return judgePersistence(n.info, n.settings(ctx, "save", "appendfsync"), time.Now())
}

// settings returns settings of the server; those are missing that this user may not read, or that the server does not have.
func (n *node) settings(ctx context.Context, names ...string) map[string]string {
	set := make(map[string]string)
	for _, name := range names {
		values, err := n.rdb.ConfigGet(ctx, name).Result()
		if value, is := values[name]; err == nil && is {
			set[name] = value
		}
	}
	return set
}

func judgePersistence(info, set map[string]string, now time.Time) Finding {
	const cut = "the state of processes that are disconnected at that moment"
	snapshots, known := set["save"]
	if info["aof_enabled"] == "1" {
		lost := map[string]string{
			"always":   "a restart costs nothing",
			"everysec": "a shutdown costs nothing, a crash or a power failure the last second or two of " + cut,
			"no":       "a shutdown costs nothing, a power failure the last half minute of " + cut,
		}[set["appendfsync"]]
		if lost == "" {
			return ok("append-only file; the server does not report how often it is synced").with("aof", true)
		}
		return ok("append-only file, fsync %s: %s", set["appendfsync"], lost).with("aof", true).with("fsync", set["appendfsync"])
	}
	switch {
	case !known:
		return ok("no append-only file; the server does not report when it takes snapshots; %s", lastSave(info, now)).with("aof", false)
	case snapshots == "":
		return ok("none: a restart costs %s, limits set by hand, and the grants of rates", cut).with("aof", false).with("save", "")
	}
	return ok("snapshots (save %s), %s: a restart costs later changes to %s, to limits set by hand, and to the grants of rates",
		snapshots, lastSave(info, now), cut).with("aof", false).with("save", snapshots)
}

// lastSave says when the last snapshot was taken. A server that has taken none reports the time of its start.
func lastSave(info map[string]string, now time.Time) string {
	saved, _ := strconv.ParseInt(info["rdb_last_save_time"], 10, 64) // 0 is long ago
	saves, counts := info["rdb_saves"]                               // Redis 6.2 does not count them
	if saves == "0" || !counts && saved <= startedAt(info) {
		return "none since the server was started"
	}
	return fmt.Sprintf("the last %s ago", text.Ago(now.Sub(time.Unix(saved, 0))))
}

// startedAt returns when the server was started, by its own clock, in seconds. INFO reports that only as an age.
func startedAt(info map[string]string) int64 {
	us, _ := strconv.ParseInt(info["server_time_usec"], 10, 64)
	uptime, _ := strconv.ParseInt(info["uptime_in_seconds"], 10, 64)
	return us/int64(time.Second/time.Microsecond) - uptime
}

// writes checks that the server could write its files: without that it may refuse writes.
func writes(ctx context.Context, _ *target, n *node) Finding {
	var set map[string]string
	if n.info["rdb_last_bgsave_status"] == "err" {
		set = n.settings(ctx, stopWrites, "save")
	}
	return judgeWrites(n.info, set)
}

const stopWrites = "stop-writes-on-bgsave-error"

func judgeWrites(info, set map[string]string) Finding {
	const advice = "check the log of the server: is the disk full, or the directory not writable?"
	aof := info["aof_enabled"] == "1" // else the states below are those of when it was
	switch {
	case aof && info["aof_last_write_status"] == "err":
		return fail("the last write to the append-only file failed, so the server refuses writes: nothing is granted", advice)
	case info["rdb_last_bgsave_status"] == "err":
		return judgeFailedSave(set, advice)
	case aof && info["aof_last_bgrewrite_status"] == "err":
		return warn("the last rewrite of the append-only file failed, so it grows", advice)
	}
	return ok("the last writes of files succeeded")
}

// judgeFailedSave says whether the server refuses writes after that: two settings can prevent it.
func judgeFailedSave(set map[string]string, advice string) Finding {
	stop, stopKnown := set[stopWrites]
	save, saveKnown := set["save"]
	const accepted = "the last save failed; the server accepts writes all the same, because %s"
	switch {
	case stop == "no":
		return warn(fmt.Sprintf(accepted, stopWrites+" is no"), advice)
	case saveKnown && save == "":
		return warn(fmt.Sprintf(accepted, "save is empty"), advice)
	case stopKnown && saveKnown:
		return fail("the last save failed, so the server refuses writes: nothing is granted", advice)
	}
	return fail("the last save failed; unless "+stopWrites+" is no, or save is empty, the server refuses writes: nothing is granted", advice)
}
