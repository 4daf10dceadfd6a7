package manual

import (
	"strings"

	"github.com/spf13/cobra"
)

// topic is a section about all commands, in Markdown: a list, and text below it.
type topic struct {
	title   string
	short   string // what it is about, for a list of topics
	entries []entry
	text    string
}

// entry is a name and its meaning.
type entry struct{ name, meaning string }

var topics = []topic{
	{"Servers", "URLs of servers, for --redis and REDIS_URL", []entry{
		{"redis://user:password@host:6379/0", "one server, and the number of its database"},
		{"unix://user:password@/run/redis.sock?db=0", "the same on a Unix socket"},
		{"cluster://user:password@host:6379?addr=host2:6379", "a cluster"},
		{"sentinel://host:26379/0?master_name=mymaster&addr=host2:26379", "a primary under Sentinel"},
	}, `The schemes ` + "`rediss`, `clusters` and `sentinels`" + ` are the same with TLS; all nodes and sentinels must have a certificate
for the first host of the URL. One address of a cluster, or one of the sentinels, is enough; more of them help when that one is
down. If a primary of a cluster is down, commands still reach the names on the other primaries. User and password are those of the
servers. Credentials of sentinels are ` + "`sentinel_username` and `sentinel_password`" + `. With TLS ` + "`tls_ca`" + ` names a file with
the certificates of the authorities to trust, and of no others; without it they are those that the system trusts. ` + "`tls_cert` and `tls_key`" + `
name files with a certificate of the client and its key, for servers that want one: those with ` + "`tls-auth-clients yes`" + `, the default
of Redis. These two are read again for every connection. Write special characters of a password as ` + "`%XX`" + `. Other
parameters, such as ` + "`read_timeout=5s`" + `, are those of go-redis.`},
	{"Exit codes", "Exit codes of all commands", []entry{
		{"0", "It worked."},
		{"1", "The answer is no: there is no such name or permit, nothing to evict, or a check failed."},
		{"2", "The command line is wrong. Nothing was sent."},
		{"75", "`run` or `limit` was not granted its units, or permits were still held when `pause --wait` was over: try again later."},
		{"76", "`run` lost the permit, and ended what it ran."},
		{"125", "fairsem itself failed, as when the server does not answer, or its output cannot be written."},
		{"126, 127", "The command of `run` or `limit` cannot be executed, or was not found."},
		{"128+n", "Signal n ended fairsem, or the command of `run` or `limit`. A SIGINT ends fairsem itself by that signal, as a shell that runs a script or a loop around it expects."},
	}, "Otherwise `run` and `limit` exit with the code of the command that they ran. A closed standard output,\nas by `>&-`, counts as `/dev/null`: writing to it does not fail."},
	{"Environment", "Environment variables that are read, and those that are set", []entry{
		{"REDIS_URL", "The server, without `--redis`. Other users of the machine can read arguments, but not this. `run` and `limit` do not pass it on to their command, unless `--pass-redis-url` is given."},
		{"FAIRSEM_PREFIX", "The prefix of every key, without `--prefix`; `fairsem` without either."},
		{"FAIRSEM_GRACE", "The grace period, without `--grace`; 1s without either. All programs that share a name should have the same."},
		{"FAIRSEM_SERVE_TOKEN", "The token of `serve --allow-writes`, without `--token-file`. `run` and `limit` do not pass it on to their command."},
		{"SSL_CERT_FILE", "A file with the certificates of trusted authorities, instead of the bundle of the system. Not read on macOS and Windows: `tls_ca` in the URL works everywhere."},
		{"NO_COLOR", "If it is not empty, the output has no colours. In a pipe it has none anyway, also with `CLICOLOR_FORCE`."},
		{"TERM", "On a `dumb` terminal there are no colours, and nothing is drawn over what is there: `demo` and `--watch` write lines below each other, `run` and `limit` show no position in the queue, and `top` does not start. The tables of `ls` and `show` are those of other terminals."},
		{"LC_ALL, LC_CTYPE, LANG", "`demo` draws with ASCII alone if the first of them that is not empty is the locale of another encoding than UTF-8."},
		{"FAIRSEM_NAME", "Set by `run` for its command: the name."},
		{"FAIRSEM_ID", "Set by `run`: the id of the permit."},
		{"FAIRSEM_TOKEN", "Set by `run`: the fencing token, greater than every one before it on that name."},
		{"FAIRSEM_WEIGHT", "Set by `run`: the units that are held."},
		{"FAIRSEM_TENANT", "Set by `run` and `limit`: the tenant; empty without `--tenant`."},
		{"FAIRSEM_NUMBER", "Set by `run`: the number of the permit's unit, the first of them if it has several; empty without `--numbered`."},
		{"FAIRSEM_NUMBERS", "Set by `run`: all numbers of the permit, with spaces between them."},
		{"SOURCE_DATE_EPOCH", "The date of manual pages, in seconds since 1970. Without it they have none."},
	}, ""},
}

// Topics returns a command for each topic. It cannot be run: cobra lists it as a topic of help.
func Topics() (all []*cobra.Command) {
	for _, t := range topics {
		all = append(all, &cobra.Command{Use: anchor(t.title), Short: t.short, Long: t.plain()})
	}
	return all
}

// plain is the text of a topic for a terminal.
func (t topic) plain() string {
	var b strings.Builder
	for _, e := range t.entries {
		b.WriteString(e.name + "\n" + filled(e.meaning, "    "))
	}
	if t.text != "" {
		b.WriteString("\n" + filled(t.text, ""))
	}
	return b.String()
}

// filled returns s without Markdown in lines that begin with indent. They are broken at spaces alone: half a flag is none.
func filled(s, indent string) string {
	const width = 80
	var lines strings.Builder
	line := indent
	for _, word := range strings.Fields(strings.ReplaceAll(s, "`", "")) {
		if line != indent && len(line)+len(" ")+len(word) > width {
			lines.WriteString(line + "\n")
			line = indent
		}
		if line != indent {
			line += " "
		}
		line += word
	}
	return lines.String() + line + "\n"
}
