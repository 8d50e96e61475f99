/** Runs in each worker before each file. */
import { afterAll } from 'vitest';
import { endLeftBehind } from './support/left-behind.ts';

// It is declared first, so it runs after the clean-up of the file itself.
afterAll(endLeftBehind, 120_000);
