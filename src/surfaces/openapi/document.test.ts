import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import Type from 'typebox';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type SurfaceFixture, startSurfaceFixture } from '../../../test/support/surface-fixture.ts';
import { defineOperation, type Operation, TextResult } from '../../kernel/operations/operation.ts';
import { configuredSurfaceOptions, defaultSurfaceOptions } from '../http/options.ts';

type Any = Record<string, unknown>;
interface Described {
  readonly openapi: string;
  readonly paths: Record<
    string,
    Record<
      string,
      Any & {
        operationId: string;
        responses: Record<string, Any>;
        security: Any[];
        parameters?: Any[];
      }
    >
  >;
  readonly components: {
    readonly schemas: Record<string, Any>;
    readonly responses: Record<string, Any>;
    readonly parameters: Record<string, Any>;
  };
}

let surfaces: SurfaceFixture;
beforeAll(async () => {
  surfaces = await startSurfaceFixture();
  surfaces.registry.replace('more/group', moreOperations);
});
afterAll(() => surfaces.close());

const common = {
  limit: 'standard',
  summary: 'More',
  output: TextResult,
  handler: () => 'ok',
} as const;
const Team = Type.Object(
  { name: Type.String(), secretKey: Type.String({ sensitive: true }) },
  { $id: 'Team' },
);

const moreOperations: readonly Operation[] = [
  defineOperation({
    ...common,
    id: 'more.team',
    surface: 'admin',
    method: 'POST',
    path: '/teams/:team',
    access: 'superAdmin',
    input: {
      params: Type.Object({
        team: Type.String({ format: 'uuid', description: 'Id of the team.' }),
      }),
      body: Team,
    },
    output: Type.Object({ teams: Type.Array(Team), parent: Team }),
    aliases: [{ method: 'PUT', path: '/admin/teams/:team' }],
    handler: () => ({ teams: [], parent: { name: '', secretKey: '' } }),
  }),
  defineOperation({
    ...common,
    id: 'more.other-name',
    surface: 'admin',
    method: 'DELETE',
    path: '/teams/:id',
    access: 'admin',
    limit: { requests: 3, seconds: 60 },
    mcp: false,
    input: {
      params: Type.Object({ id: Type.String() }),
      headers: Type.Object({
        'if-match': Type.Optional(Type.String()),
        accept: Type.Optional(Type.String()),
      }),
    },
  }),
  defineOperation({
    ...common,
    id: 'more.ready',
    surface: 'admin',
    method: 'GET',
    path: '/ready',
    access: 'public',
    input: {},
    otherStatuses: { 503: 'The platform is not ready.' },
  }),
];

const describedBy = async (surface: 'client' | 'admin'): Promise<Described> =>
  (await (await surfaces[surface]('/swagger.json')).json()) as Described;

/** What the linter has to say; empty when it is content. */
async function lint(description: string): Promise<string> {
  const root = fileURLToPath(new URL('../../../', import.meta.url));
  const folder = await mkdtemp(join(tmpdir(), 'penstock-openapi-'));
  try {
    const file = join(folder, 'description.json');
    await writeFile(file, description);
    const command = [
      join(root, 'node_modules/@redocly/cli/bin/cli.js'),
      'lint',
      '--config',
      join(root, 'redocly.yaml'),
      file,
    ];
    const env = {
      ...process.env,
      REDOCLY_TELEMETRY: 'off',
      REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true',
    };
    return await promisify(execFile)(process.execPath, command, { env }).then(
      () => '',
      (error: { stdout?: string; stderr?: string }) => `${error.stdout}${error.stderr}`,
    );
  } finally {
    await rm(folder, { recursive: true });
  }
}

describe('the OpenAPI description', () => {
  it('passes a strict linter, offline, on both surfaces', { timeout: 60_000 }, async () => {
    for (const surface of ['client', 'admin'] as const)
      expect(await lint(await (await surfaces[surface]('/swagger.json')).text())).toBe('');
    const broken = (await (await surfaces.client('/swagger.json')).text()).replace(
      '"operationId":"getNotes",',
      '',
    );
    expect(await lint(broken)).toContain('operation-operationId');
  });

  it('has every route of its surface, aliases included, with unique ids', async () => {
    for (const surface of ['client', 'admin'] as const) {
      const { paths } = await describedBy(surface);
      const shapes = new Set(
        Object.entries(paths).flatMap(([path, item]) =>
          Object.keys(item).map(
            (method) => `${method.toUpperCase()} ${path.replace(/\{\w+\}/g, ':')}`,
          ),
        ),
      );
      for (const { operation } of surfaces.registry
        .all()
        .filter((one) => one.operation.surface === surface)) {
        for (const { method, path } of [operation, ...(operation.aliases ?? [])])
          expect(shapes).toContain(`${method} ${path.replace(/:\w+/g, ':')}`);
      }
      const ids = Object.values(paths).flatMap((item) =>
        Object.values(item).map(({ operationId }) => operationId),
      );
      expect(new Set(ids).size).toBe(ids.length);
    }
  });

  it('gives credentials as alternatives', async () => {
    const admin = await describedBy('admin');
    expect(admin.paths['/who/admin']?.get?.security).toEqual([
      { masterKey: [] },
      { adminToken: [] },
      { apiToken: [] },
    ]);
    const client = await describedBy('client');
    expect(client.paths['/who/optionalUser']?.get?.security).toEqual([{ userToken: [] }, {}]);
    expect(client.paths['/who/public']?.get?.security).toEqual([]);
  });

  it('lists the statuses that an operation can really give', async () => {
    const { paths, components } = await describedBy('client');
    expect(Object.keys(paths['/notes']?.post?.responses ?? {})).toEqual([
      '200',
      '400',
      '409',
      '413',
      '415',
      '429',
      'default',
    ]);
    expect(Object.keys(paths['/who/user']?.get?.responses ?? {})).toEqual([
      '200',
      '401',
      '429',
      'default',
    ]);
    expect(paths['/notes']?.post?.responses['409']).toEqual({
      $ref: '#/components/responses/IDEMPOTENCY_KEY_REUSED.NOTE_LOCKED',
    });
    expect(components.responses['IDEMPOTENCY_KEY_REUSED.NOTE_LOCKED']).toMatchObject({
      content: {
        'application/json': {
          examples: {
            NOTE_LOCKED: { value: { name: 'CONFLICT', status: 409, code: 'NOTE_LOCKED' } },
          },
        },
      },
    });
    const admin = await describedBy('admin');
    expect(admin.paths['/ready']?.get?.responses['503']).toMatchObject({
      description: 'The platform is not ready.',
    });
  });

  it('says how often an operation may be called that has a limit of its own', async () => {
    const { paths } = await describedBy('admin');
    const own = paths['/teams/{id}']?.delete;
    expect(own).toMatchObject({ 'x-rate-limit': { requests: 3, seconds: 60 } });
    expect(own?.responses).toHaveProperty('429');
    expect(paths['/ready']?.get).not.toHaveProperty('x-rate-limit');
  });

  it('names parameters once per path, publishes shared schemas once, and drops words of our own', async () => {
    const { paths, components } = await describedBy('admin');
    expect(Object.keys(paths).filter((path) => path.startsWith('/teams/'))).toEqual([
      '/teams/{id}',
    ]);
    expect(paths['/teams/{id}']?.post?.parameters?.[0]).toMatchObject({
      name: 'id',
      in: 'path',
      required: true,
      description: 'Id of the team.',
      example: expect.stringMatching(/^[0-9a-f-]{36}$/),
    });
    expect(paths['/teams/{id}']?.delete?.parameters).toMatchObject([
      { name: 'id' },
      { name: 'if-match' },
      { $ref: '#/components/parameters/IdempotencyKey' },
    ]);
    expect(components.parameters).toHaveProperty('IdempotencyKey');
    expect(components.schemas.Team).toEqual({
      type: 'object',
      required: ['name', 'secretKey'],
      properties: { name: { type: 'string' }, secretKey: { type: 'string' } },
    });
    expect(paths['/teams/{id}']?.post).toMatchObject({
      'x-mcp-tool': 'post_teams_team',
      'x-module': 'more',
      'x-operation': 'more.team',
    });
    expect(paths['/teams/{id}']?.delete).not.toHaveProperty('x-mcp-tool');
    expect(paths['/admin/teams/{team}']?.put).toMatchObject({ deprecated: true });
    expect(paths['/admin/teams/{team}']?.put).not.toHaveProperty('x-mcp-tool');
  });

  it('is the same bytes while nothing changes, and follows the registry', async () => {
    const first = await surfaces.admin('/swagger.json');
    const etag = first.headers.get('etag') ?? '';
    expect(
      (await surfaces.admin('/swagger.json', { headers: { 'if-none-match': etag } })).status,
    ).toBe(304);
    surfaces.registry.replace('more/group', []);
    expect((await describedBy('admin')).paths).not.toHaveProperty('/teams/{id}');
    surfaces.registry.replace('more/group', moreOperations);
    expect((await surfaces.admin('/swagger.json')).headers.get('etag')).toBe(etag);
  });
});

describe('the front page', () => {
  it('leads a browser on, tells programs the same, and names no documents that are closed', async () => {
    const accept = 'text/html,application/xhtml+xml,*/*;q=0.8';
    for (const surface of ['client', 'admin'] as const) {
      const answer = await surfaces[surface]('/', { headers: { accept } });
      expect([answer.status, answer.headers.get('content-type')]).toEqual([
        200,
        'text/html; charset=utf-8',
      ]);
      const page = await answer.text();
      // Relative, for proxies that put a path before them.
      const links = [...page.matchAll(/href="\.(\/[^"]*)"/g)].map(([, path]) => path ?? '');
      expect(links).toContain('/reference');
      expect(await (await surfaces[surface]('/')).json()).toMatchObject({
        name: 'Penstock',
        surface,
        links: { reference: '/reference', ready: '/ready' },
      });
    }
  });
});

describe('the viewer', () => {
  it('is served on both surfaces, with and without a trailing slash, under a policy that allows only us', async () => {
    for (const surface of ['client', 'admin'] as const) {
      for (const path of ['/reference', '/reference/', '/swagger', '/swagger/']) {
        const response = await surfaces[surface](path);
        expect([response.status, response.headers.get('content-type')]).toEqual([
          200,
          'text/html; charset=utf-8',
        ]);
        expect(response.headers.get('content-security-policy')).toMatch(
          /default-src 'none'; script-src 'self';.*connect-src 'self'/,
        );
        const page = await response.text();
        expect(page).not.toMatch(/https?:\/\//);
        for (const [, asset] of page.matchAll(/(?:src|href)="(\/swagger\/assets\/[^"]+)"/g)) {
          expect((await surfaces[surface](asset ?? '')).status).toBe(200);
        }
      }
    }
  });

  it('serves no other file', async () => {
    for (const name of [
      'package.json',
      '..%2f..%2fpackage.json',
      'swagger-ui.js.map',
      '__proto__',
      'constructor',
    ]) {
      expect((await surfaces.client(`/swagger/assets/${name}`)).status).toBe(404);
    }
  });

  it('needs a credential when the description is not public, at once when that changes', async () => {
    const { cors } = defaultSurfaceOptions('admin');
    const hsts = { enabled: false, maxAge: 0, includeSubDomains: false, preload: false };
    const config = {
      hostUrl: 'https://admin.example',
      public: true,
      cors: { ...cors, origin: 'https://a.example, https://b.example' },
      hsts,
    };
    let changed = async (_next: typeof config): Promise<void> => undefined;
    const handle = {
      current: () => config,
      version: () => 1,
      guard: () => () => undefined,
      onChange: (
        listener: (next: typeof config, previous: typeof config) => void | Promise<void>,
      ) => {
        changed = async (next) => listener(next, config);
        return () => undefined;
      },
    };
    const guarded = await startSurfaceFixture({
      admin: configuredSurfaceOptions('admin', handle, { docsPublic: (one) => one.public }),
    });
    try {
      expect((await guarded.admin('/swagger.json')).status).toBe(200);
      await changed({ ...config, public: false });
      expect(await (await guarded.admin('/')).json()).toMatchObject({ links: { ready: '/ready' } });
      for (const path of ['/swagger.json', '/swagger', '/reference'])
        expect((await guarded.admin(path)).status).toBe(401);
      const description = await guarded.admin('/swagger.json', {
        headers: { masterkey: 'master', origin: 'https://b.example' },
      });
      expect(description.headers.get('access-control-allow-origin')).toBe('https://b.example');
      expect(await description.json()).toMatchObject({
        servers: [{ url: 'https://admin.example' }],
      });
    } finally {
      await guarded.close();
    }
  });
});
