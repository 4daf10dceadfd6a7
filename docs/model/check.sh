#!/usr/bin/env bash
# Runs every variant of the models, or of those that are named: what must hold, and the negative controls, each of which
# must fail at the claim that it is there for. Exits 1 if any of them does otherwise. Installs nothing.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
for tool in spin gcc timeout; do
	command -v "$tool" >/dev/null || { echo "needs $tool (Debian: apt-get install spin gcc libc6-dev coreutils)" >&2; exit 2; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
bad=0
named=" $* "

# of MODEL: what follows are its variants.
of() {
	model=$here/$1 chosen=yes
	[[ $named == "  " || $named == *" $1 "* ]] || chosen=
	[ -z "$chosen" ] || echo "$1"
}

# search FLAGS OPTIMIZE: runs spin on the variant, exhaustively, and leaves what it says in the file log.
search() {
	local compile="-DSAFETY" run=""
	case $1 in *LIVE*) compile="-DNFAIR=3" run="-a -f" ;; esac
	rm -f pan* log
	# shellcheck disable=SC2086
	spin $1 -a "$model" >log 2>&1 && gcc "$2" -w -DNOREDUCE -DMEMLIM=2000 $compile -o pan pan.c >>log 2>&1 || return 1
	# shellcheck disable=SC2086
	timeout 3600 ./pan -m1000000 -w24 $run >log 2>&1
}

figure() { awk "$1" log; }

report() {
	printf '%-8s %-58s %-8s %10s states  depth %6s  %5s MB  %6s s\n' "$1" "$2" "$3" \
		"$(figure '/^ *[0-9]+ states, stored/ {n = $1} END {print n + 0}')" \
		"$(figure '/depth reached/ {sub(",", "", $6); print $6}')" \
		"$(figure '/total actual memory/ {printf "%d", $1}')" \
		"$(figure '/elapsed time/ {print $4}')"
}

holds() { # what must hold: no error, and the search was not cut short
	[ -n "$chosen" ] || return 0
	if search "$1" -O2 && grep -q 'errors: 0' log && ! grep -Eq 'max search depth|out of memory|Search not completed' log; then
		report holds "${1:-(none)}" ""
	else
		bad=1; report WRONG "${1:-(none)}" "fails"; grep -E '^pan:|rror' log || true
	fi
}

fails() { # $2: the claim; $3: how pan says that it is broken. It does so soon: to compile takes longer.
	[ -n "$chosen" ] || return 0
	if search "$1" -O0 && grep -Eq "^pan:[0-9]*:? *$3" log; then
		report fails "$1" "$2"
	else
		bad=1; report WRONG "$1" "not $2"; grep -E '^pan:|rror' log || true
	fi
}

of fairsem.pml
holds ""
holds "-DWEIGHTED"
holds "-DTRY"
holds "-DLOSS"
holds "-DLOSS -DHEAD_START"
holds "-DLIVE"
holds "-DLIVE -DWEIGHTED"
holds "-DLIVE -DWEIGHTED -DWATCH=1"

fails "-DWEIGHTED -DPROMOTE_SKIPS" S5 'assertion violated .ahead'
fails "-DREFRESH_REVIVES"          S1 'assertion violated .*srv\[0\]'
fails "-DNO_OWNER_CHECK"           S8 'assertion violated .*lapsed'
fails "-DNO_TOMBSTONE"             S4 'assertion violated .phase\[(i|who)\]!='
fails "-DDROP_UNSURE"              S4 'assertion violated .phase\[(i|who)\]!='
fails "-DTRY -DDROP_UNSURE"        S4 'assertion violated .phase\[(i|who)\]!='
fails "-DLIVE -DNO_POLL"           served 'acceptance cycle'
fails "-DLOSS -DNO_GRACE"          S2 'assertion violated .*phase\[0\]'
fails "-DLOSS -DCUT_OFF"           S2 'assertion violated .*phase\[0\]'
fails "-DLOSS -DHEAD_START -DWAKE_NO_EPOCH" S2 'assertion violated .*phase\[0\]'

of identity.pml
holds ""
holds "-DCLIENTS=3 -DMISHAPS=1"
holds "-DSUBSCRIBE"
holds "-DEVICT"
holds "-DREDUCE"
holds "-DEVICT -DREDUCE -DMISHAPS=1"
holds "-DLATE"
holds "-DREPLICAS -DLATE"
holds "-DMISHAPS=1 -DBELIEVE_ALL"

s2='assertion violated \(+phase\[0\]=='
s5='assertion violated .*behind'
kept='assertion violated .*phase\[i\]!=[0-9]+\)\|\| !\(trust'
fails "-DUNKEPT -DNO_IDENTITY"                    S2 "$s2"
fails "-DMISHAPS=1 -DLOOK_SKIPS -DUNKEPT"         S2 "$s2"
fails "-DMISHAPS=1 -DSTATUS_WRITES -DUNKEPT"      S2 "$s2"
fails "-DMISHAPS=1 -DRELEASE_SKIPS -DCLIENTS=3 -DUNKEPT" S2 "$s2"
fails "-DUNKEPT -DGRANT_IN_GRACE"                 S2 "$s2"
fails "-DUNKEPT -DACQUIRE_IN_GRACE"               S2 "$s2"
fails "-DUNKEPT -DNEW_AT_ONCE"                    S2 "$s2"
fails "-DUNKEPT -DKNOWN_TOO_SOON"                 S2 "$s2"
fails "-DUNKEPT -DBY_UPTIME"                      S2 "$s2"
fails "-DUNKEPT -DNOT_DEMOTED"                    S2 "$s2"
fails "-DBELIEVE_ALL"                             S2 "$s2"
fails "-DCLOCK_BEHIND"                            S2 "$s2"
fails "-DREPLICAS -DDISBELIEVE_ALL"               S5 "$s5"
fails "-DREPLICAS -DLATE -DLATE_COUNTS"           S5 "$s5"
fails "-DUNKEPT -DCUT_OFF"                        S2 "$s2"
fails "-DUNKEPT -DSTALE_ANSWER"                   S2 "$s2"
fails "-DUNKEPT -DSUBSCRIBE -DNO_POLL"            S2 "$s2"
fails "-DUNKEPT -DSUBSCRIBE -DNO_ASK"             S2 "$s2"
fails "-DMUST_FIT"                                kept "$kept"
fails "-DSAME_EPOCH"                              kept "$kept"
fails "-DEVICT -DNO_TOMBSTONE"                    S4 'assertion violated .*stays_out'
fails "-DEVICT -DLATE -DLATE_RESTORE"             S4 'assertion violated .*stays_out'
fails "-DEVICT -DEVICT_OLD"                       S4 'assertion violated .*stays_out'
fails "-DREDUCE -DUNWEIGHED -DRESTORE_RAISES"     S1 'assertion violated \(\(grace'
fails "-DREDUCE -DUNWEIGHED -DREDUCE_RAISES"      S1 'assertion violated \(\(grace'
fails "-DREDUCE -DRESTORE_ALL"                    weight 'assertion violated .*told'
fails "-DREDUCE -DREDUCE_ONCE"                    weight 'assertion violated .*told'
fails "-DREDUCE -DUNKEPT -DUNWEIGHED -DREDUCE_CONFIRMS" S2 "$s2"

of tenants.pml
holds ""
holds "-DWEIGHTED -DSHARES"
holds "-DWEIGHTED -DTRY"
holds "-DWEIGHTED -DLIMITS"
holds "-DWEIGHTED -DSHARES -DLIMIT=4"
holds "-DWEIGHTED -DSHARES -DLIMITS -DRESIZE"
holds "-DFORGET"
holds "-DLIVE"
holds "-DLIVE -DLIMIT=1"
holds "-DLIVE -DLIMIT=1 -DWATCH=0"
holds "-DLIVE -DLIMIT=1 -DWATCH=0 -DFORGET"
holds "-DLIVE -DWEIGHTED -DSHARES"
holds "-DLIVE -DWEIGHTED -DSHARES -DWATCH=1"

fails "-DARRIVAL"                   S12 'assertion violated in_turn'
fails "-DTIES_ARRIVAL"              S12 'assertion violated in_turn'
fails "-DTIES_NAME"                 S12 'assertion violated in_turn'
fails "-DLIVE -DLIMIT=1 -DTIES_NAME" served 'acceptance cycle'
fails "-DNEW_FIRST"                  S12 'assertion violated in_turn'
fails "-DLIVE -DLIMIT=1 -DWATCH=0 -DFORGET -DNEW_FIRST" served 'acceptance cycle'
fails "-DNEW_LAST"                   S12 'assertion violated in_turn'
fails "-DDRIFT"                     counted 'assertion violated counts_hold'
fails "-DDRIFT -DUNCOUNTED"         S12 'assertion violated in_turn'
fails "-DNOT_TOUCHED"               S12 'assertion violated in_turn'
fails "-DWEIGHTED -DSKIPS"          S12 'assertion violated in_turn'
fails "-DWEIGHTED -DNEW_SKIPS"      S12 'assertion violated in_turn'
fails "-DWEIGHTED -DNEW_SKIPS_OWN"  S5 'assertion violated in_order'
fails "-DLAST_FIRST"                S5 'assertion violated in_order'
fails "-DFEW_TURNS"                 conserving 'assertion violated conserved'
fails "-DLIMITS -DLIMIT_BLOCKS"     conserving 'assertion violated conserved'
fails "-DLIMITS -DLIMIT_UNREAD"     limit 'assertion violated within_limits'

of plain.pml
holds ""
holds "-DWEIGHTED"

fails "-DWEIGHTED -DWEIGHT_UNREAD"        granted 'assertion violated granted'
fails "-DQUEUE_UNREAD"                    conserved 'assertion violated conserved'
fails "-DQUEUE_UNREAD -DUNCONSERVED"      granted 'assertion violated granted'
fails "-DGRACE_UNREAD"                    granted 'assertion violated granted'
fails "-DLIMIT_KEPT"                      conserved 'assertion violated conserved'
fails "-DLIMIT_KEPT -DUNCONSERVED"        granted 'assertion violated granted'
fails "-DENDED_LATE"                      conserved 'assertion violated conserved'
fails "-DENDED_LATE -DUNCONSERVED"        granted 'assertion violated granted'
fails "-DPLUS_UNREAD"                     granted 'assertion violated granted'
fails "-DSERVER_UNREAD"                   granted 'assertion violated granted'
fails "-DEXPIRED_UNREAD"                  conserved 'assertion violated conserved'
fails "-DEXPIRED_UNREAD -DUNCONSERVED"    granted 'assertion violated granted'
fails "-DIDS_UNREAD"                      once 'assertion violated once'
fails "-DRELEASES_ANY"                    conserved 'assertion violated conserved'

exit $bad
