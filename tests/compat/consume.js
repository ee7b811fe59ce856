// Reads a slot with the npm package pg-logical-replication until a transaction that ends it, and prints each message as its own parser
// of pgoutput understands it.
//
//     NODE_PATH=.../node_modules node consume.js HOST PORT DATABASE SLOT COMMITS
const { LogicalReplicationService, PgoutputPlugin } = require('pg-logical-replication');
const [host, port, database, slot, commits] = process.argv.slice(2);
const service = new LogicalReplicationService({ host, port: Number(port), database, user: 'postgres' },
	{ acknowledge: { auto: true, timeoutSeconds: 1 } });
const printable = (_, value) => typeof value === 'bigint' ? value.toString() : value;
let seen = 0;

service.on('data', (lsn, message) => {
	console.log(lsn + ' ' + JSON.stringify(message, printable));
	if (message.tag === 'commit' && ++seen === Number(commits))
		service.stop().then(() => process.exit(0));
});
service.on('error', (error) => { console.error(error); process.exit(1); });
service.subscribe(new PgoutputPlugin({ protoVersion: 1, publicationNames: ['p'] }), slot).catch((error) => { console.error(error); process.exit(1); });
setTimeout(() => { console.error('no end'); process.exit(2); }, 60000);
