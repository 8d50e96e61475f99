/** Connections that stay open, so that requests can wait on them while the other side is paused. */
import { once } from 'node:events';
import { Agent, type IncomingMessage, request } from 'node:http';

export interface KeptConnection {
  /** Sends a GET request on this one connection and answers the status. */
  ask(path: string, headers?: Readonly<Record<string, string>>): Promise<number>;
  close(): void;
}

/** Opens a connection with a first request. */
export async function keepConnection(baseUrl: string): Promise<KeptConnection> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const ask: KeptConnection['ask'] = async (path, headers = {}) => {
    const sent = request(new URL(path, baseUrl), { agent, headers });
    sent.end();
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    response.resume();
    await once(response, 'end');
    return response.statusCode ?? 0;
  };
  await ask('/live');
  return { ask, close: () => agent.destroy() };
}
