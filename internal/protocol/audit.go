package protocol

// AuditScripts are those of fairsem doctor. They only read, and compare what is stored of a name with what follows from the rest of it.
var (
	AuditScripts = []*Script{AuditScript, AuditTenantsScript, AuditNumbersScript}

	AuditScript        = plainScript("audit", NotPlain, everyKind, "from", "count", "late", "far")
	AuditTenantsScript = plainScript("audit_tenants", NotPlain, []int{0, 1, 4, 6, 7, 8}, "most")
	AuditNumbersScript = plainScript("audit_numbers", NotPlain, []int{0, 4, 9}, "holder", "number", "count")
)
