/** The mail server of the stored configuration: whether somebody answers there. Nobody logs in, and nothing is sent. */
import { connect } from 'node:net';
import type pg from 'pg';
import { type Finding, note, ok, problem } from './finding.ts';
import { readStored } from './stored.ts';

const PATIENCE_MS = 5_000;

export async function checkMailServer(client: pg.Client): Promise<Finding[]> {
  const { communications } = await readStored(client);
  const { active = true, transport = 'smtp', transportSettings: { smtp = {} } = {} } = communications?.email ?? {};
  if (!active) return [];
  const { host = '', port = -1, secure = false } = smtp;
  if (transport !== 'smtp' || host === '') {
    return [
      note(
        'Mail',
        'No mail server is set: messages are captured for operators to read',
        'See docs/guides/messages.md before users need mail',
      ),
    ];
  }
  const address = { host, port: port > 0 ? port : secure ? 465 : 587 };
  const failure = await answers(address);
  if (failure === undefined) return [ok('Mail', `${host}:${address.port} answers`)];
  return [
    problem(
      'Mail',
      `The mail server ${host}:${address.port} does not answer (${failure})`,
      'Correct email.transportSettings.smtp (PATCH /config/communications), or let this machine reach it; messages wait meanwhile',
    ),
  ];
}

/** Why nobody answers; `undefined` when somebody does. */
const answers = (address: { host: string; port: number }): Promise<string | undefined> =>
  new Promise((resolve) => {
    const socket = connect({ ...address, timeout: PATIENCE_MS });
    const end = (reason: string | undefined): void => {
      socket.destroy();
      resolve(reason);
    };
    socket.once('connect', () => end(undefined));
    socket.once('timeout', () => end('no answer in time'));
    socket.once('error', (error: NodeJS.ErrnoException) => end(error.code ?? error.message));
  });
