package inspect

var QueryTenantsUpTo = queryTenants
