// Package protocol is, with the Lua in scripts/, the only place that knows the data of fairsem in Redis: the names of the keys, the
// arguments of each script and its reply. It sends nothing itself. What the audit scripts take and reply, the doctor of the command knows.
package protocol
