import type { PromisedRoute, RouteState } from './routes.ts';

const states: readonly RouteState[] = ['works', 'partly', 'not yet', 'removed'];

const titles: Readonly<Record<string, string>> = {
  '4.1': 'Authentication',
  '4.2': 'Authorization',
  '4.3': 'Database, client surface',
  '4.4': 'Storage',
  '4.5': 'Chat, embeddings, communications',
  '4.6': 'Push notifications (0.16)',
  '4.7': 'E-mail and SMS (0.16)',
  '4.8': 'Forms (0.16)',
  '4.9': 'Admin surface',
};

/** `acceptance/COVERAGE.md` from the list of routes. */
export function coveragePage(routes: readonly PromisedRoute[]): string {
  const sections = [...new Set(routes.map((route) => route.section))].sort();
  return [
    '# Coverage of the interface',
    '',
    'Made by `npm run coverage` from [routes.json](routes.json): change that file, not this one. A test compares both with each other and with the routes that a running platform really has.',
    '',
    '| Section | Routes | Works | Partly | Not yet | Removed on purpose |',
    '|---|---|---|---|---|---|',
    ...sections.map((section) =>
      totals(`${section} ${titles[section] ?? ''}`, inSection(routes, section)),
    ),
    totals('**All**', routes),
    '',
    ...sections.flatMap((section) => sectionTable(section, inSection(routes, section))),
  ].join('\n');
}

const inSection = (routes: readonly PromisedRoute[], section: string) =>
  routes.filter((route) => route.section === section);

function totals(name: string, routes: readonly PromisedRoute[]): string {
  const counts = states.map((state) => routes.filter((route) => route.state === state).length);
  return `| ${[name, routes.length, ...counts].join(' | ')} |`;
}

function sectionTable(section: string, routes: readonly PromisedRoute[]): string[] {
  return [
    `## ${section} ${titles[section] ?? ''}`,
    '',
    '| Route | Surface | Line | Credential | State | Tests | Note |',
    '|---|---|---|---|---|---|---|',
    ...routes.map(
      ({ route, surface, line, credential, state, tests = [], note = '' }) =>
        `| \`${route}\` | ${surface} | ${line} | ${credential} | ${state} | ${tests.map(testLink).join(', ')} | ${note} |`,
    ),
    '',
  ];
}

const testLink = (path: string): string => `[${path.split('/').at(-1)}](../${path})`;
