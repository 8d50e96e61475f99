/**
 * Measures messages: mails per second beside the SMTP library alone, one message to very many, inboxes and devices.
 * `npm run bench:communications -- --parts mails,inbox --mails 1000`; `--dry` leaves RESULTS.md as it is, and parts that
 * did not run keep what stands there.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { describeMachine } from '../machine.ts';
import { measureBroadcast } from './broadcast.ts';
import { measureInbox } from './inbox.ts';
import { measureMails } from './mails.ts';
import { openSetting, type Part } from './setting.ts';

const { values } = parseArgs({
  options: {
    dry: { type: 'boolean', default: false },
    parts: { type: 'string', default: 'mails,broadcast,inbox' },
    mails: { type: 'string', default: '1000' },
    recipients: { type: 'string', default: '100000' },
    entries: { type: 'string', default: '100000' },
    profile: { type: 'string' },
  },
});

interface Section {
  readonly heading: string;
  readonly part: Part;
  readonly size: number;
}

/** In the order of the report. */
const sections: ReadonlyMap<string, Section> = new Map([
  ['mails', { heading: 'Mails per second', part: measureMails, size: Number(values.mails) }],
  [
    'broadcast',
    {
      heading: 'One message to very many',
      part: measureBroadcast,
      size: Number(values.recipients),
    },
  ],
  ['inbox', { heading: 'Inboxes and devices', part: measureInbox, size: Number(values.entries) }],
]);

const report = new URL('RESULTS.md', import.meta.url);

/** What the report says under each heading so far. */
async function earlier(): Promise<ReadonlyMap<string, string>> {
  const text = await readFile(report, 'utf8').catch(() => '');
  return new Map(
    text
      .split(/^## /m)
      .slice(1)
      .map((part) => {
        const [heading = '', ...lines] = part.split('\n');
        return [heading, lines.join('\n').trim()];
      }),
  );
}

const chosen = values.parts.split(',');
const unknown = chosen.filter((name) => !sections.has(name));
if (unknown.length > 0) throw new Error(`There is no part ${unknown.join(', ')}`);
const texts = new Map(await earlier());
for (const [name, { heading, part, size }] of sections) {
  if (!chosen.includes(name)) continue;
  const folder = values.profile;
  const setting = await openSetting(
    folder === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${folder}`],
  );
  try {
    const text = await part(setting, { size });
    process.stdout.write(`## ${heading}\n\n${text}\n\n`);
    texts.set(heading, text);
  } finally {
    await setting.close();
  }
}
const parts = [...sections.values()].flatMap(({ heading }) => {
  const text = texts.get(heading);
  return text === undefined ? [] : [`## ${heading}\n\n${text}\n`];
});
const head = `# Messages\n\n${describeMachine('the embedded one')}\n`;
if (!values.dry) await writeFile(report, [head, ...parts].join('\n'));
