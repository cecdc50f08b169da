package balance

// HandTrace has two nodes, one more that goes at once, a pod that runs before, and three that come.
const HandTrace = `{"format":"kubernasium.cluster-trace","version":1,"start":"2026-03-01T10:00:00Z"}
{"k":"node","node":{"name":"a","milli_cpu":4000,"memory_bytes":8589934592,"pods":10,"gpus":1,"milli_gpu":1000,"gpu_model":"T4","labels":{"zone":"z1"}}}
{"k":"node","node":{"name":"b","milli_cpu":4000,"memory_bytes":8589934592,"pods":10,"labels":{"zone":"z2"}}}
{"k":"node","node":{"name":"c","milli_cpu":4000,"memory_bytes":8589934592,"pods":10}}
{"k":"template","template":{"owner":"Job/x","milli_cpu":1000,"memory_bytes":1073741824}}
{"k":"template","template":{"owner":"Job/y","milli_cpu":1000,"memory_bytes":1073741824,"node_selector":{"zone":"z1"},"gpus":1,"milli_gpu":500}}
{"k":"template","template":{"owner":"Job/z","milli_cpu":2000,"memory_bytes":1073741824}}
{"k":"template","template":{"owner":"Job/z","milli_cpu":4000,"memory_bytes":1073741824}}
{"k":"pod","ago":10000,"name":"p0"}
{"k":"bind","ago":10000,"n":1}
{"k":"run","ago":10000}
{"k":"remove_node","t":1000,"n":2}
{"k":"pod","t":4000,"tpl":1,"name":"p1"}
{"k":"bind","p":1,"gpus":[0]}
{"k":"run","p":1}
{"k":"pod","t":1000,"tpl":2,"name":"p2"}
{"k":"finish","t":9000,"p":1,"phase":"Succeeded"}
{"k":"delete","t":5000}
{"k":"pod","t":10000,"tpl":3,"name":"p3"}
{"k":"end","t":10000}
`
