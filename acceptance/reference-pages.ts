/** The pages of `docs/reference/`, from what the platform says about itself. */
import type { ConfigDefinition } from '../src/kernel/config/config-definition.ts';
import { type ConfigKey, configKeys } from '../src/kernel/config/keys.ts';
import type { Json } from '../test/support/api.ts';

export interface Documents {
  readonly client: Json;
  readonly admin: Json;
}

const header = (title: string, about: string) =>
  `# ${title}\n\n${about}\n\nMade by \`npm test -- acceptance/reference.test.ts -u\`: do not edit.\n\n`;

const table = (head: readonly string[], rows: readonly (readonly string[])[]) =>
  [head, head.map(() => '---'), ...rows]
    .map((cells) => `| ${cells.map(cell).join(' | ')} |`)
    .join('\n');

const cell = (text: string) => text.replaceAll('|', '\\|').replaceAll('\n', ' ');

/** @param help what `settingsHelp()` prints: two spaces, name, description, default in brackets. */
export function environmentPage(help: string): string {
  const rows = help.split('\n').map((line) => {
    const [, name = '', description = '', fallback = ''] =
      /^\s+(\S+)\s+(.*?)(?: \[(.*)\])?$/.exec(line) ?? [];
    return [`\`${name}\``, description, fallback && `\`${fallback}\``];
  });
  return `${header('Environment variables', 'Read once, at the start. `npm start -- --help` prints the same.')}${table(['Variable', 'Meaning', 'Default'], rows)}\n`;
}

interface DescribedRoute {
  readonly module: string;
  readonly surface: string;
  readonly route: string;
  readonly operation: Json;
}

function routesOf(documents: Documents): DescribedRoute[] {
  return Object.entries(documents).flatMap(([surface, document]) =>
    Object.entries<Json>(document.paths).flatMap(([path, item]) =>
      Object.entries<Json>(item).map(([method, operation]) => ({
        module: operation['x-module'],
        surface,
        route: `${method.toUpperCase()} ${path}`,
        operation,
      })),
    ),
  );
}

const credentials: Readonly<Record<string, string>> = {
  masterKey: 'master key',
  adminToken: 'admin token',
  apiToken: 'API token',
  secondFactorToken: 'second-factor token',
  userToken: 'access token',
  refreshToken: 'refresh token',
};

function credentialOf(operation: Json): string {
  const alternatives = (operation.security as Json[]).map(
    (one) =>
      Object.keys(one)
        .map((name) => credentials[name] ?? name)
        .join(' and ') || 'none',
  );
  return alternatives.join(' or ') || 'none';
}

export function operationsPage(documents: Documents): string {
  const routes = routesOf(documents);
  const groups = [
    ...new Set(routes.map(({ module, surface }) => `${module}, ${surface} surface`)),
  ].sort();
  const sections = groups.map((group) => {
    const rows = routes
      .filter(({ module, surface }) => `${module}, ${surface} surface` === group)
      .map(({ route, operation }) => [`\`${route}\``, operation.summary, credentialOf(operation)]);
    return `## ${group}\n\n${table(['Route', 'What it does', 'Credential'], rows)}\n`;
  });
  const about =
    'Every route of a platform without schemas of its own; each schema adds the record routes under `/database/<Schema>`. Parameters and answers are in `/swagger.json` and at `/reference` of a running platform.';
  return `${header('Operations', about)}${sections.join('\n')}`;
}

export function errorsPage(documents: Documents): string {
  const codes = new Map<string, { status: number; message: string; routes: Set<string> }>();
  for (const { module, operation } of routesOf(documents)) {
    for (const response of Object.values<Json>(operation.responses)) {
      for (const { value } of Object.values<Json>(
        response.content?.['application/json']?.examples ?? {},
      )) {
        const known = codes.get(value.code) ?? {
          status: value.status,
          message: value.message,
          routes: new Set(),
        };
        codes.set(value.code, known);
        known.routes.add(module);
      }
    }
  }
  const rows = [...codes]
    .sort(([codeA, a], [codeB, b]) => a.status - b.status || (codeA < codeB ? -1 : 1))
    .map(([code, { status, message, routes }]) => [
      `\`${code}\``,
      String(status),
      message,
      [...routes].sort().join(', '),
    ]);
  return `${header('Error codes', 'The field `code` of an error. Codes are stable; messages may change.')}${table(['Code', 'Status', 'Meaning', 'Modules'], rows)}\n`;
}

/** A module, or another owner of a configuration document. */
export interface ConfiguredModule {
  readonly name: string;
  readonly description: string;
  readonly config: ConfigDefinition;
  /** Cannot be switched off. */
  readonly essential?: boolean;
}

export function configurationPage(modules: readonly ConfiguredModule[]): string {
  const sections = modules.map(({ name, description, config, essential = name === 'admin' }) => {
    const active = essential
      ? []
      : [
          [
            '`active`',
            'boolean',
            '`true`',
            'super admins',
            'Whether the module serves. Off: its routes are withdrawn, its data stays.',
          ],
        ];
    const rows = configKeys(config).map((key) => [
      `\`${key.key}\``,
      typeOf(key),
      defaultOf(key),
      changedBy[key.class],
      key.description,
    ]);
    return `## ${name}\n\n${description}\n\n${table(['Key', 'Type', 'Default', 'Changed by', 'Meaning'], [...active, ...rows])}\n`;
  });
  const about =
    'Read with `GET /config/<module>`, changed with `PATCH /config/<module>` on the admin surface; a change holds on every node when the call returns. Keys are guarded, for super admins alone, unless they are marked harmless; a token that is narrowed to modules reaches the configuration of those.';
  return `${header('Configuration', about)}${sections.join('\n')}`;
}

const changedBy: Readonly<Record<ConfigKey['class'], string>> = {
  guarded: 'super admins',
  harmless: 'admins',
};

const typeOf = ({ type, choices }: ConfigKey): string =>
  choices?.map((choice) => `\`${choice}\``).join(' or ') ?? type;

const defaultOf = ({ sensitive, default: value }: ConfigKey): string =>
  sensitive ? 'secret' : `\`${JSON.stringify(value)}\``;
