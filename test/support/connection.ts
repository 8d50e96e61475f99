/** A plain connection to a test's database, for looking behind the platform's back. */
import pg from 'pg';

export interface TestConnection {
  query(text: string, values?: unknown[]): Promise<readonly Record<string, unknown>[]>;
  close(): Promise<void>;
}

export async function openTestConnection(url: string): Promise<TestConnection> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  return {
    query: async (text, values = []) => (await client.query(text, values)).rows,
    close: () => client.end(),
  };
}
