/** Runs once per test run, in the main process: owns the servers that suites share, started when the first one asks. */
import type { TestProject } from 'vitest/node';
import { startFixtureBroker } from './support/servers/fixture-broker.ts';
import { createRunFolder } from './support/servers/run-folder.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** Unix socket on which the fixture broker answers. */
    fixtureSocket: string;
    /** Folder for everything that the run writes. */
    runFolder: string;
  }
}

export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const folder = await createRunFolder();
  const broker = await startFixtureBroker(folder.path);
  project.provide('runFolder', folder.path);
  project.provide('fixtureSocket', broker.socket);
  return async () => {
    await broker.close();
    await folder.remove();
  };
}
