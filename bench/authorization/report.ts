/** Writes the figures as `RESULTS.md` and the growth as `growth.svg`. */
import { writeFile } from 'node:fs/promises';
import type { Measured, PageTimes, Times } from './measure.ts';
import { verdict, writeKeepingSections } from './sections.ts';

const number = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const ms = (value: number): string => (value < 10 ? value.toFixed(2) : value.toFixed(0));
const both = ({ p50, p99 }: Times): string => `${ms(p50)} / ${ms(p99)}`;
const ratio = (value: number): string => `${value.toFixed(1)}x`;
const row = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
const table = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [row(head), row(head.map(() => '---')), ...rows.map(row)].join('\n');

interface Line {
  readonly title: string;
  readonly of: (measured: Measured) => Times;
}

const people: readonly (readonly [keyof Measured['pages'], string])[] = [
  ['everybody', 'without permissions'],
  ['newcomer', 'few records, one by one'],
  ['reader', 'most records, through one team'],
  ['head', 'many records, through a tree of all teams'],
];

const lines: readonly Line[] = [
  { title: 'check, allowed', of: (m) => m.checks.positive },
  { title: 'check, denied', of: (m) => m.checks.negative },
  { title: 'check, mixed', of: (m) => m.checks.mixed },
  ...people.map(
    ([who, title]): Line => ({ title: `page of 20, ${title}`, of: (m) => m.pages[who].page }),
  ),
  ...people.map(
    ([who, title]): Line => ({
      title: `page and exact count, ${title}`,
      of: (m) => m.pages[who].withCount,
    }),
  ),
  { title: 'write of one tuple', of: (m) => m.writes.tuple },
  { title: 'bare insert', of: (m) => m.writes.bare },
];

function goals({ checks, pages, writes }: Measured): string {
  const against = (
    who: 'newcomer' | 'reader',
    part: keyof Omit<PageTimes, 'sees'>,
  ): readonly string[] => {
    const value = pages[who][part].p50 / pages.everybody[part].p50;
    const what = part === 'page' ? 'page of 20' : 'page of 20 with its exact count';
    return [
      `${what} for somebody who sees ${number.format(pages[who].sees)}`,
      '<= 3x',
      ratio(value),
      verdict(value <= 3),
    ];
  };
  const write = writes.tuple.p50 / writes.bare.p50;
  return table(
    ['', 'goal', 'measured', ''],
    [
      ['check, p50', '<= 1 ms', `${ms(checks.mixed.p50)} ms`, verdict(checks.mixed.p50 <= 1)],
      ['check, p99', '<= 5 ms', `${ms(checks.mixed.p99)} ms`, verdict(checks.mixed.p99 <= 5)],
      against('newcomer', 'page'),
      against('reader', 'page'),
      against('newcomer', 'withCount'),
      against('reader', 'withCount'),
      ['write of one tuple', '<= 2x', ratio(write), verdict(write <= 2)],
    ],
  );
}

const sees = (all: readonly Measured[]): string =>
  table(
    ['records seen', ...all.map((m) => number.format(m.size.tuples))],
    people.map(([who, title]) => [title, ...all.map((m) => number.format(m.pages[who].sees))]),
  );

export async function writeReport(
  folder: URL,
  all: readonly Measured[],
  machine: string,
): Promise<void> {
  const last = all.at(-1);
  if (!last) throw new Error('nothing was measured');
  const { users, teams, records, tuples } = last.size;
  const text = `# Permissions, measured

Written by \`npm run bench:authorization\` on ${new Date().toISOString().slice(0, 10)}: ${machine}. All times are milliseconds inside the process, p50 / p99, one question after the other. The program, the database and whatever else runs on the machine share its processors.

The largest data set has ${number.format(tuples)} tuples: ${number.format(users)} people, ${number.format(teams)} teams nested six deep, ${number.format(records)} records, of which one team owns four in five. Owners, members and shares are skewed: a few have much, most have little.

## Goals, at ${number.format(tuples)} tuples

${goals(last)}

## Growth

${table(
  ['tuples', ...all.map((m) => number.format(m.size.tuples))],
  lines.map(({ title, of }) => [title, ...all.map((m) => both(of(m)))]),
)}

${sees(all)}

![Growth of the times with the number of tuples](growth.svg)

## Where the time goes

- A check is one statement: a walk from the asked object, of index lookups only. Its cost follows the number of objects on the way, not the number of tuples.
- A page is one statement. Through which objects the subject acts is remembered; whether that still holds is part of the statement. Only when something changed about such objects is the page read again.
- The first rows in order are found from the tuples of the subject and of the objects through which they act: 20 of each are enough. Somebody who acts through thousands of objects gets them by asking row after row.
- An exact count is read from an index of tuples that are known to lead to rows: the largest share as it is, the others without what was counted already. A count without permissions runs along the primary key, whose entries are a fifth of the size.
`;
  await writeKeepingSections(new URL('RESULTS.md', folder), text);
  await writeFile(new URL('growth.svg', folder), plot(all));
}

const width = 720;
const height = 400;
const margin = { left: 60, right: 250, top: 20, bottom: 40 };
const colours = ['#1f6feb', '#8250df', '#57606a', '#1a7f37', '#9a6700', '#cf222e'];
const plotted = [
  'check, mixed',
  'page of 20, without permissions',
  'page of 20, few records, one by one',
  'page of 20, most records, through one team',
  'write of one tuple',
];

/** Both axes are logarithmic. */
function plot(all: readonly Measured[]): string {
  const charts = [
    ...lines
      .filter(({ title }) => plotted.includes(title))
      .map(({ title, of }) => ({ title, value: (m: Measured) => of(m).p50 })),
    { title: 'check, mixed, p99', value: (m: Measured) => m.checks.mixed.p99 },
  ];
  const sizes = all.map((m) => Math.log10(m.size.tuples));
  const values = charts.flatMap(({ value }) => all.map((m) => Math.log10(value(m))));
  const [low, high] = [Math.floor(Math.min(...values)), Math.ceil(Math.max(...values))];
  const [first = 0, span] = [sizes[0], Math.max(1, (sizes.at(-1) ?? 1) - (sizes[0] ?? 0))];
  const x = (size: number): number =>
    margin.left + ((size - first) / span) * (width - margin.left - margin.right);
  const y = (value: number): number =>
    height - margin.bottom - ((value - low) / (high - low)) * (height - margin.top - margin.bottom);
  const grid = Array.from({ length: high - low + 1 }, (_, i) => low + i).map(
    (power) =>
      `<line x1="${margin.left}" x2="${width - margin.right}" y1="${y(power)}" y2="${y(power)}" stroke="#d0d7de"/>` +
      `<text x="${margin.left - 8}" y="${y(power) + 4}" text-anchor="end">${10 ** power} ms</text>`,
  );
  const ticks = all.map(
    (m, i) =>
      `<text x="${x(sizes[i] ?? 0)}" y="${height - 16}" text-anchor="middle">${number.format(m.size.tuples)}</text>`,
  );
  const curves = charts.map(({ title, value }, i) => {
    const colour = colours[i % colours.length];
    const points = all
      .map((m, n) => `${x(sizes[n] ?? 0).toFixed(1)},${y(Math.log10(value(m))).toFixed(1)}`)
      .join(' ');
    const label = margin.top + 12 + i * 20;
    return (
      `<polyline points="${points}" fill="none" stroke="${colour}" stroke-width="2"/>` +
      `<line x1="${width - margin.right + 16}" x2="${width - margin.right + 36}" y1="${label - 4}" y2="${label - 4}" stroke="${colour}" stroke-width="2"/>` +
      `<text x="${width - margin.right + 42}" y="${label}">${title}</text>`
    );
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="11" fill="#57606a"><title>Times by number of tuples, p50 unless said otherwise</title><rect width="${width}" height="${height}" fill="#fff"/>${[...grid, ...ticks, ...curves].join('')}</svg>\n`;
}
