package protocol

// TenantsScript lists tenants.
var TenantsScript = newScript("tenants", "cursor", "count")

// Tenants lists about count tenants, from a cursor of an earlier reply on; "0" is the beginning.
func (s CallPrefix) Tenants(cursor string, count int) Call {
	c := s.newCall(TenantsScript, Declaration{Nothing: true}, 0, 2)
	c.Args = append(c.Args, cursor, count)
	return c
}

// TenantEntry is the state of a tenant.
type TenantEntry struct {
	Name         string
	Share, Limit int64
	Units        int64
	Permits      int64
	Waiting      int64
	Waited       int64 // us for which the first of them has waited; negative: there is none
}

// tenantParts is how many values a reply has for each tenant.
const tenantParts = 7

// DecodeTenants checks and converts the reply of tenants.lua. The cursor is "0" at the end.
func DecodeTenants(list []any) (all []TenantEntry, cursor string, err error) {
	if len(list)%tenantParts != 1 {
		return nil, "", ErrReply
	}
	cursor, ok := list[0].(string)
	if !ok {
		return nil, "", ErrReply
	}
	for list = list[1:]; len(list) > 0; list = list[tenantParts:] {
		e := TenantEntry{}
		if e.Name, ok = list[0].(string); !ok {
			return nil, "", ErrReply
		}
		for i, field := range []*int64{&e.Share, &e.Limit, &e.Units, &e.Permits, &e.Waiting, &e.Waited} {
			if *field, ok = list[i+1].(int64); !ok {
				return nil, "", ErrReply
			}
		}
		all = append(all, e)
	}
	return all, cursor, nil
}
