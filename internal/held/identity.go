package held

import "github.com/fairsem/fairsem/internal/protocol"

// ClientOf returns what the ids of all permits of a Client have in common, from one of them.
func ClientOf(permitID string) string { return protocol.ClientOf(permitID) }

// TenantOf returns the tenant on whose account a permit is.
func TenantOf(permitID string) string { return protocol.TenantOf(permitID) }
