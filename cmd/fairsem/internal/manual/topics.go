package manual

// topic is a section about all commands: a list, and what there is to add. All of it is Markdown.
type topic struct {
	title   string
	entries []entry
	text    string
}

// entry is something by its name, and what it means.
type entry struct{ name, meaning string }

var topics = []topic{
	{"Servers", []entry{
		{"redis://user:password@host:6379/0", "one server, and the number of its database"},
		{"unix://user:password@/run/redis.sock?db=0", "the same on a Unix socket"},
		{"cluster://user:password@host:6379?addr=host2:6379", "a cluster"},
		{"sentinel://host:26379/0?master_name=mymaster&addr=host2:26379", "a master under Sentinel"},
	}, `The schemes ` + "`rediss`, `clusters` and `sentinels`" + ` are the same with TLS; all nodes and sentinels must have a certificate
for the first host of the URL. Of a cluster and of sentinels one address is enough, and more of them help when that one is
down. User and password are those of the servers; sentinels that want some too get ` + "`sentinel_username`" + ` and
` + "`sentinel_password`" + `. Special characters of a password are written ` + "`%XX`" + `. Other parameters, such as
` + "`read_timeout=5s`" + `, are those of go-redis.`},
	{"Exit codes", []entry{
		{"0", "It worked."},
		{"1", "The answer is no: there is no such name or permit, or what was checked is not as it should be."},
		{"2", "The command line is wrong. Nothing was sent."},
		{"75", "`run` or `limit` was not granted what it asked for: try again later."},
		{"76", "`run` lost the permit, and ended what it ran."},
		{"125", "fairsem itself failed, such as for want of a server."},
		{"126, 127", "`run` or `limit` found something that cannot be executed, or nothing."},
		{"128+n", "Signal n ended it, or what `run` or `limit` ran."},
	}, "Otherwise `run` and `limit` exit with the code of the command that they ran."},
	{"Environment", []entry{
		{"REDIS_URL", "The server, where no `--redis` names one. Other users of the machine can read arguments, but not this. `run` and `limit` keep it from their command, unless `--pass-redis-url` is given."},
		{"FAIRSEM_PREFIX", "What every key begins with, where no `--prefix` says so; `fairsem` without either."},
		{"SSL_CERT_FILE", "A file with the certificates of authorities to trust, for a server whose certificate no public one signed."},
		{"NO_COLOR", "If it is not empty, nothing is coloured."},
		{"TERM", "On a `dumb` terminal nothing is drawn: lines are written instead."},
		{"FAIRSEM_NAME", "Set by `run` for its command: the name."},
		{"FAIRSEM_ID", "Set by `run`: the id of the permit."},
		{"FAIRSEM_TOKEN", "Set by `run`: the fencing token, greater than every one before it on that name."},
		{"FAIRSEM_WEIGHT", "Set by `run`: the units that are held."},
		{"SOURCE_DATE_EPOCH", "The date of manual pages, in seconds since 1970. Without it they have none."},
	}, ""},
}
