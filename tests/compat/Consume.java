// Reads a slot with the PostgreSQL JDBC driver until a position and prints each message in hexadecimal.
//
//     java -cp postgresql.jar Consume.java jdbc:postgresql://127.0.0.1:PORT/DATABASE SLOT POSITION
import java.nio.ByteBuffer;
import java.sql.DriverManager;
import java.util.Properties;
import org.postgresql.PGConnection;
import org.postgresql.PGProperty;
import org.postgresql.replication.LogSequenceNumber;
import org.postgresql.replication.PGReplicationStream;

public class Consume {
	public static void main(String[] args) throws Exception {
		Properties properties = new Properties();
		PGProperty.USER.set(properties, "postgres");
		PGProperty.ASSUME_MIN_SERVER_VERSION.set(properties, "9.4");
		PGProperty.REPLICATION.set(properties, "database");
		PGProperty.PREFER_QUERY_MODE.set(properties, "simple");
		LogSequenceNumber end = LogSequenceNumber.valueOf(args[2]);
		StringBuilder out = new StringBuilder();

		try (var connection = DriverManager.getConnection(args[0], properties)) {
			PGReplicationStream stream = connection.unwrap(PGConnection.class).getReplicationAPI().replicationStream().logical()
				.withSlotName(args[1]).withSlotOption("proto_version", 1).withSlotOption("publication_names", "p").start();
			while (true) {
				ByteBuffer message = stream.readPending();
				if (message == null) {
					if (stream.getLastReceiveLSN().asLong() >= end.asLong())
						break;
					Thread.sleep(10);
					continue;
				}
				while (message.hasRemaining())
					out.append(String.format("%02x", message.get()));
				out.append('\n');
				stream.setAppliedLSN(stream.getLastReceiveLSN());
				stream.setFlushedLSN(stream.getLastReceiveLSN());
			}
			stream.close();
		}
		System.out.print(out);
	}
}
