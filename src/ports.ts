/** Whether the ports can be used, found before the database is started and changed. */
import { createServer } from 'node:net';
import type { Settings } from './kernel/settings.ts';
import { listenError } from './surfaces/http/server.ts';

type PortSettings = Pick<Settings, 'clientHttpPort' | 'clientSocketPort' | 'adminHttpPort' | 'host'>;

/** @throws StartError that names the port and the variable that moves it. */
export async function checkPorts({ clientHttpPort, clientSocketPort, adminHttpPort, host }: PortSettings): Promise<void> {
  const wanted = [
    { port: clientHttpPort, portVariable: 'CLIENT_HTTP_PORT' },
    { port: adminHttpPort, portVariable: 'ADMIN_HTTP_PORT' },
    { port: clientSocketPort, portVariable: 'CLIENT_SOCKET_PORT' },
  ];
  for (const { port, portVariable } of wanted) {
    if (port > 0) await tryPort({ port, host, portVariable });
  }
}

function tryPort(place: { port: number; host: string; portVariable: string }): Promise<void> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', (error) => reject(listenError(error, place)));
    server.listen({ port: place.port, host: place.host }, () => server.close(() => resolve()));
  });
}
