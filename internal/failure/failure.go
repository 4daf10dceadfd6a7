// Package failure is all that knows the errors of go-redis and of Redis: which of them say that a command was executed,
// that it was not, or that its outcome is unknown, and after which a retry can help.
package failure

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

var (
	// ErrClosed means that the client was closed.
	ErrClosed = errors.New("fairsem: client closed")
	// ErrNoAnswer means that the outcome of a command is unknown. A copy of it may still be executed.
	ErrNoAnswer = errors.New("no answer in time")
	// ErrFewReplicas means that a command was executed, but too few replicas have its effect.
	ErrFewReplicas = errors.New("too few replicas have acknowledged it")
	// ErrIncomplete means that a list of names has those of some primaries of a cluster only.
	ErrIncomplete = errors.New("the names of some primaries are missing")
)

// shortened is a reply of Redis without some of its words. It does not wrap the reply: programs print what an error wraps, too.
type shortened string

func (e shortened) Error() string { return string(e) }
func (e shortened) RedisError()   {}

type reworded struct {
	words string
	cause error
}

func (e *reworded) Error() string { return e.words }
func (e *reworded) Unwrap() error { return e.cause }

// Reworded wraps cause, and has none of its words: these may repeat a password, or differ each time.
func Reworded(cause error, format string, args ...any) error {
	return &reworded{fmt.Sprintf(format, args...), cause}
}

// inScript is what Redis before 7 puts before the error of a command of a script, and the error.
var inScript = regexp.MustCompile(`^ERR Error running script \(call to f_[0-9a-f]{40}\): @user_script:\d+: (?:@user_script: \d+: )?-?([A-Z].*)$`)

// Discreet returns err as Redis 7 would say it, without what Redis repeats of a command that it does not know: of AUTH, that is the
// password. Whatever go-redis returns goes through here before it becomes part of an error, an event or a log.
func Discreet(err error) error {
	if err == nil {
		return nil
	}
	var said redis.Error
	if !errors.As(err, &said) {
		return err
	}
	if text, _, repeats := strings.Cut(said.Error(), ", with args beginning with"); repeats {
		return shortened(text)
	}
	if parts := inScript.FindStringSubmatch(strings.TrimSpace(said.Error())); parts != nil {
		return shortened(parts[1])
	}
	return err
}

// IsReply reports whether err has a reply of Redis in its chain, if only an earlier one: the server was there.
func IsReply(err error) bool {
	if err == nil {
		return false
	}
	var said redis.Error
	return errors.As(err, &said)
}

// Begins reports whether err is a reply of Redis that begins with those words, after its "ERR" if it has one.
// nil costs nothing: this is asked of every answer.
func Begins(err error, words string) bool { return err != nil && redis.HasErrorPrefix(err, words) }

// IsMissing reports whether err means that a key or a field does not exist.
func IsMissing(err error) bool { return errors.Is(err, redis.Nil) }

// Denied reports whether err is the reply to a user who lacks a right.
func Denied(err error) bool { return redis.IsPermissionError(err) }

// DeniedCommand reports whether the user may not run the command of that name, or any command if the name is empty. A key or a channel
// that the user may not use is no denied command.
func DeniedCommand(err error, name string) bool {
	return Denied(err) && (name == "" && says(err, "to run the") || name != "" && says(err, "'"+name+"'"))
}

// DeniedChannel reports whether it is a channel that the user may not use.
func DeniedChannel(err error) bool { return Denied(err) && says(err, "channel") }

// UnknownCommand reports whether err is the reply of a server that has no such command; "" is any.
func UnknownCommand(err error, name string) bool {
	return Begins(err, "unknown command") &&
		(name == "" || says(err, "unknown command '"+name+"'") || says(err, "unknown command `"+name+"`")) // the latter before Redis 7
}

// says reports whether text is somewhere in err, which may be the end of a chain that go-redis has joined.
func says(err error, text string) bool { return err != nil && strings.Contains(err.Error(), text) }

// Busy reports whether err is the reply of a server that a script blocks.
func Busy(err error) bool { return Begins(err, "BUSY") }

// NoSuchDatabase reports whether err is the reply of a server that has fewer databases than the number of the one asked for.
func NoSuchDatabase(err error) bool { return Begins(err, "DB index is out of range") }

// NotClustered reports whether err is the reply of a server that is not part of a cluster.
func NotClustered(err error) bool { return says(err, "cluster support disabled") }

// OfTheName reports whether err says something about the keys of one name only: a call with any other may work.
func OfTheName(err error) bool {
	return Begins(err, "WRONGTYPE") || Begins(err, "FAIRSEM")
}

// Refused reports whether err is Redis's reply to the command, so that no copy can still be in flight. A script that failed
// at run time has granted nothing, and what it changed expires. An earlier reply that ErrNoAnswer wraps was about
// something else.
func Refused(err error) bool {
	return IsReply(err) && !errors.Is(err, ErrNoAnswer) && !IsUnreplicated(err)
}

// IsFull reports whether Redis refused the command for lack of memory, which it does before the first write of a script: it did nothing.
func IsFull(err error) bool { return Refused(err) && Begins(err, "OOM") }

// IsUnreplicated reports whether err means that the operation was executed, but not confirmed by WAIT.
func IsUnreplicated(err error) bool { return errors.Is(err, ErrFewReplicas) }

// IsConnection reports whether err means that the server is gone, or is not the same server as before.
func IsConnection(err error) bool {
	return err != nil && !IsUnreplicated(err) && (!Refused(err) || notServing(err))
}

// Moved reports whether err is the reply of a node that no longer has the name.
func Moved(err error) bool { return Begins(err, "MOVED") }

// UnknownScript reports whether err is the reply of a server that has not cached the script.
func UnknownScript(err error) bool { return Begins(err, "NOSCRIPT") }

// Forbidden reports whether err is a reply of Redis that no retry changes, such as that to a user who lacks a right.
func Forbidden(err error) bool { return Refused(err) && !Transient(err) }

// IsOtherKind reports whether err is the reply to a Limiter on a name that is used as a Semaphore, or the other way round.
func IsOtherKind(err error) bool { return Begins(err, "FAIRSEMKIND") }

// Transient reports whether a retry can help.
func Transient(err error) bool {
	if errors.Is(err, redis.ErrClosed) {
		return false
	}
	if !Refused(err) {
		return !IsUnreplicated(err) || !Begins(err, "NOPERM")
	}
	return notServing(err) || beginsAny(err,
		"TRYAGAIN", "max number of clients reached", "OOM", "NOREPLICAS", "BUSY", "MISCONF", "NOSCRIPT", "MOVED", "ASK")
}

// notServing reports whether err is the reply of a server that takes no writes for now.
func notServing(err error) bool {
	return beginsAny(err, "LOADING", "READONLY", "CLUSTERDOWN", "MASTERDOWN")
}

func beginsAny(err error, words ...string) bool {
	return slices.ContainsFunc(words, func(begin string) bool { return Begins(err, begin) })
}

// reply is a reply of Redis in words of ours: a short password may be a part of Redis's.
type reply struct {
	is    func(error) bool
	words string
}

// Replies of a Redis that has accepted the connection, and of one that has not.
var (
	afterLogin = []reply{
		{begins("NOPERM"), "NOPERM this user lacks a right"},
		{begins("LOADING"), "LOADING it is loading its data"},
		{Busy, "BUSY a script is running for long"},
		{begins("MASTERDOWN"), "MASTERDOWN this replica has no connection to its primary"},
		{begins("CLUSTERDOWN"), "CLUSTERDOWN the cluster is down"},
		{begins("MISCONF"), "MISCONF it cannot save its data, and accepts no writes"},
		{NotClustered, "ERR This instance has cluster support disabled"},
		{NoSuchDatabase, "ERR DB index is out of range"},
	}
	atLogin = []reply{
		{begins("WRONGPASS"), "WRONGPASS invalid username-password pair or user is disabled"},
		{begins("NOAUTH"), "NOAUTH a password is needed"},
	}
)

func begins(words string) func(error) bool {
	return func(err error) bool { return Begins(err, words) }
}

// InWords is a usual reply of Redis to a first command, without anything that Redis repeats of it; "" if err is none of those.
func InWords(err error) string {
	for _, r := range slices.Concat(afterLogin, atLogin) {
		if r.is(err) {
			return r.words
		}
	}
	return ""
}

// AcceptedBefore reports whether err is the usual reply of a Redis that has accepted the connection.
func AcceptedBefore(err error) bool {
	return slices.ContainsFunc(afterLogin, func(r reply) bool { return r.is(err) })
}

// advice is what to do about errors of Redis that a retry cannot heal, by their first words.
var advice = map[string]string{
	"WRONGTYPE":                           "another program uses a key of this name: choose another name or Options.Prefix",
	"FAIRSEMKIND":                         "a Limiter and a Semaphore need names of their own",
	"FAIRSEMLAYOUT an older version":      layoutAdvice,
	"FAIRSEMLAYOUT a newer version":       "upgrade this program, or " + layoutAdvice,
	"NOAUTH":                              passwordAdvice,
	"Protocol error: unauthenticated":     passwordAdvice,
	"WRONGPASS":                           passwordAdvice,
	"NOPERM":                              rightsAdvice,
	"ACL failure in script":               rightsAdvice,
	"The user executing the script can't": rightsAdvice, // how Redis 7.0 says it
}

// KeysExpire says how long unused keys live, as docs/operations.md does.
const KeysExpire = "keys expire 40 s later, or 20 s after the longest TTL, window or grace period"

const layoutAdvice = "let the processes of that version end: their " + KeysExpire + "; docs/upgrading.md says how to delete them earlier"

// How Redis says that none was given depends on the command: a long one is a protocol error.
const passwordAdvice = "give the go-redis client the user and the password of this Redis"

const rightsAdvice = "give this Redis user the rights that docs/operations.md lists"

// Advice is what to do about err, "" if there is none.
func Advice(err error) string {
	for begin, what := range advice {
		if Begins(err, begin) {
			return what
		}
	}
	return ""
}
