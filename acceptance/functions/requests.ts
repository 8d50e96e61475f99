/** Requests that tests of functions share. */
import { expect } from 'vitest';
import type { Api } from '../../test/support/api.ts';

export interface StoredFunctionView {
  readonly _id: string;
  readonly version: number;
  readonly language: string;
  readonly [key: string]: unknown;
}

interface Given {
  readonly name: string;
  readonly functionCode: string;
  readonly functionType?: string;
  readonly inputs?: object;
  readonly returns?: unknown;
  readonly timeout?: number;
}

/** Stores a function; a `request` by GET unless it says otherwise. */
export async function upload(admin: Api, given: Given): Promise<StoredFunctionView> {
  const answer = await admin.post('/functions/upload', {
    functionType: 'request',
    inputs: { method: 'GET' },
    ...given,
  });
  expect(answer).toMatchObject({ status: 200 });
  return answer.body as unknown as StoredFunctionView;
}

export interface TestRunView {
  readonly result: unknown;
  readonly error: Readonly<Record<string, unknown>> | null;
  readonly logs: readonly unknown[];
  readonly executionId: string;
  readonly [key: string]: unknown;
}

export async function invoke(admin: Api, id: string, body: object): Promise<TestRunView> {
  const answer = await admin.post(`/functions/${id}/invoke`, body);
  expect(answer).toMatchObject({ status: 200 });
  return answer.body as unknown as TestRunView;
}
