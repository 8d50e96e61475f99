/**
 * Measures searches: how good the orders are on a labelled set, how fast the model is and what it takes from others, and
 * how long searches take for callers who may read much or little. `npm run bench:search -- --only orders,models,model,searches`
 * runs some of the parts and leaves the others of RESULTS.md as they are; with `--dry` the file stays as it is. SEARCH_ROUNDS:
 * backfills beside which lists are read, 4 unless set.
 */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { describeMachine } from '../machine.ts';
import { type Platform, startPlatform } from '../platform.ts';
import { reportModels } from './models.ts';
import { call } from './requests.ts';
import { fillLabelled, reportModel, reportOrders } from './texts.ts';
import { reportSearches } from './timings.ts';

interface Part {
  readonly title: string;
  readonly needsTexts: boolean;
  report(platform: Platform): Promise<string>;
}

const parts = {
  orders: { title: 'How good the orders are', needsTexts: true, report: reportOrders },
  models: { title: 'Which model', needsTexts: true, report: reportModels },
  model: { title: 'The built-in model', needsTexts: true, report: reportModel },
  searches: { title: 'How long searches take', needsTexts: false, report: reportSearches },
} as const satisfies Record<string, Part>;
type PartName = keyof typeof parts;

const isPart = (name: string): name is PartName => Object.hasOwn(parts, name);

function chosenParts(only: string | undefined): readonly PartName[] {
  const names = only?.split(',') ?? Object.keys(parts);
  const unknown = names.find((name) => !isPart(name));
  if (unknown !== undefined)
    throw new Error(`"${unknown}" is none of ${Object.keys(parts).join(', ')}`);
  return names.filter(isPart);
}

/** What each part says, without its title. */
type Sections = Partial<Record<PartName, string>>;

async function measure(platform: Platform, names: readonly PartName[]): Promise<Sections> {
  const config = { rateLimit: { maxRequests: 1_000_000 } };
  await call(platform, '/config/router', { body: { config }, method: 'PATCH' });
  if (names.some((name) => parts[name].needsTexts)) await fillLabelled(platform);
  const today = new Date().toISOString().slice(0, 10);
  const by = `On ${today}: ${describeMachine('18')}.`;
  const sections: Sections = {};
  for (const name of names) sections[name] = `${by}\n\n${await parts[name].report(platform)}`;
  return sections;
}

/** The sections of a report that was written before, by their titles. */
const sectionsOf = (report: string): ReadonlyMap<string, string> =>
  new Map(
    report
      .split(/^## /m)
      .slice(1)
      .map((section) => {
        const end = section.indexOf('\n');
        return [section.slice(0, end), section.slice(end).trim()];
      }),
  );

function reportOf(sections: Sections, before: string): string {
  const known = sectionsOf(before);
  const all = Object.entries(parts).flatMap(([name, { title }]) => {
    const text = (isPart(name) ? sections[name] : undefined) ?? known.get(title);
    return text === undefined ? [] : [`## ${title}\n\n${text.trim()}\n`];
  });
  return `# Search, measured\n\nWritten by \`npm run bench:search\`.\n\n${all.join('\n')}`;
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: { dry: { type: 'boolean', default: false }, only: { type: 'string' } },
  });
  const names = chosenParts(values.only);
  const dataDir = await mkdtemp(join(tmpdir(), 'penstock-search-'));
  const platform = await startPlatform({ dataDir });
  try {
    const sections = await measure(platform, names);
    const file = new URL('RESULTS.md', import.meta.url);
    const report = reportOf(sections, await readFile(file, 'utf8').catch(() => ''));
    if (values.dry) console.log(report);
    else await writeFile(file, report);
  } finally {
    await platform.stop();
    await rm(dataDir, { recursive: true, force: true });
  }
}

main().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
});
