/**
 * Measures chat beside Socket.IO alone, live lists beside writes without listeners, rooms of odd sizes, and what idle
 * connections cost. `npm run bench:realtime`; `--part chat` (live, skew, idle) measures one of them and keeps what
 * RESULTS.md says of the others; of chat, `--work one` (many) and `--rounds N` measure less. `--dry` leaves it as it is, `--profile FOLDER` writes a CPU profile of the platform.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { describeMachine } from '../machine.ts';
import { chat } from './chat.ts';
import { idle, liveLists } from './live.ts';
import { openSetting, type Setting } from './setting.ts';
import { skew } from './skew.ts';

const { values } = parseArgs({
  options: {
    part: { type: 'string' },
    dry: { type: 'boolean', default: false },
    profile: { type: 'string' },
    connections: { type: 'string', default: '10000' },
    messages: { type: 'string', default: '1000000' },
    rounds: { type: 'string', default: '3' },
    work: { type: 'string' },
  },
});

interface Part {
  readonly title: string;
  readonly text: readonly string[];
  measure(setting: Setting): Promise<readonly string[]>;
}

const parts: Readonly<Record<string, Part>> = {
  chat: {
    title: 'Chat',
    text: [
      'Medians of rounds in turns, beside Socket.IO alone (bare.ts): as it is, which stores nothing, and durable, which commits a row for each message before it tells, in the same PostgreSQL. Clients, five of each user, send as fast as they are acknowledged. Goals are in brackets.',
      '',
      '| | Bare | Bare, durable | Penstock | To bare | To bare, durable |',
      '|---|---|---|---|---|---|',
    ],
    measure: (setting) => chat(setting, { rounds: Number(values.rounds), work: values.work }),
  },
  live: {
    title: 'Live lists',
    text: [
      '200 writes a second, listeners of ten users; the goal is a ratio of at most 1.3, and that it does not grow with subscribers to the same queries.',
      '',
      '| | CPU of a write in the server, µs | In the database | Ratio of both | p50 from the write to the listener, ms | Deliveries |',
      '|---|---|---|---|---|---|',
    ],
    measure: liveLists,
  },
  skew: {
    title: 'Odd sizes',
    text: ['| | ms | Goal |', '|---|---|---|'],
    measure: (setting) => skew(setting, Number(values.messages)),
  },
  idle: {
    title: 'Idle connections',
    text: [],
    measure: (setting) => idle(setting, Number(values.connections)),
  },
};

const file = fileURLToPath(new URL('RESULTS.md', import.meta.url));

/** Sections of the last report, by title. */
async function lastReport(): Promise<Map<string, string>> {
  const text = await readFile(file, 'utf8').catch(() => '');
  return new Map(
    text
      .split('\n## ')
      .slice(1)
      .map((section) => [section.split('\n', 1)[0] ?? '', section.trimEnd()]),
  );
}

const chosen = values.part === undefined ? Object.keys(parts) : [values.part];
const sections = await lastReport();
for (const name of chosen) {
  const part = parts[name];
  if (!part) throw new Error(`There is no part ${name}`);
  const profile = values.profile;
  const setting = await openSetting(
    profile === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${profile}`],
  );
  try {
    const lines = await part.measure(setting);
    for (const line of lines) console.log(line);
    sections.set(part.title, [part.title, '', ...part.text, ...lines].join('\n'));
  } finally {
    await setting.close();
  }
}
const ordered = Object.values(parts).flatMap(({ title }) => sections.get(title) ?? []);
const head = `# Realtime\n\n${describeMachine('the embedded one')}\n`;
if (!values.dry)
  await writeFile(file, `${[head, ...ordered.map((one) => `## ${one}\n`)].join('\n')}`);
process.exit(0);
