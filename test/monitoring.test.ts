import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import type { Json } from './support/api.ts';
import { freePort } from './support/free-port.ts';
import { createTestPlatform, type TestPlatform } from './support/platform.ts';
import { projectRoot } from './support/spawn.ts';

const names = (expression: string): string[] => expression.match(/\bpenstock_[a-z0-9_]+/g) ?? [];
/** A histogram is three series. */
const base = (name: string): string => name.replace(/_(bucket|count|sum)$/, '');

describe('deploy/', () => {
  let platform: TestPlatform;
  let exposed: ReadonlySet<string>;
  const file = (path: string): Promise<string> =>
    readFile(join(projectRoot, 'deploy', path), 'utf8');

  beforeAll(async () => {
    const port = await freePort();
    platform = await createTestPlatform({ env: { METRICS_PORT: String(port) } });
    const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    exposed = new Set([...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name = '']) => name));
  });
  afterAll(() => platform.close());

  const missing = (expressions: readonly string[]): string[] => [
    ...new Set(
      expressions.flatMap(names).filter((name) => !exposed.has(name) && !exposed.has(base(name))),
    ),
  ];

  test('the dashboard shows only metrics that a platform has from its start', async () => {
    const dashboard: Json = JSON.parse(await file('grafana/penstock.json'));
    const expressions = dashboard.panels.flatMap((panel: Json) =>
      (panel.targets ?? []).map(({ expr }: Json) => expr),
    );
    expect(expressions.length).toBeGreaterThan(15);
    expect(missing(expressions)).toEqual([]);
    expect(new Set(dashboard.panels.map(({ id }: Json) => id)).size).toBe(dashboard.panels.length);
  });

  test('each alert watches metrics that exist, and says what to do', async () => {
    const { groups }: Json = parse(await file('alerts.yaml'));
    const rules = groups.flatMap((group: Json) => group.rules);
    expect(missing(rules.map(({ expr }: Json) => expr))).toEqual([]);
    for (const { alert, labels, annotations } of rules) {
      expect(alert).toMatch(/^Penstock/);
      expect(labels.severity).toMatch(/^(critical|warning)$/);
      expect(annotations.summary.length * annotations.description.length).toBeGreaterThan(0);
    }
  });
});
