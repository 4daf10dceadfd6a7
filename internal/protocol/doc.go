// Package protocol is, with the Lua in scripts/, all that knows what fairsem keeps in Redis: the names of the keys, the
// arguments of each script and its reply. It sends nothing itself.
package protocol
