/** The bus of a platform that is one process: there is nobody else to tell. */
import { alwaysFresh } from '../freshness/freshness.ts';
import type { NodeBus } from './create-bus.ts';

export const createLocalBus = (nodeId: string): NodeBus => ({
  nodeId,
  publish: async () => undefined,
  announce: async () => ({ replicas: 1, failed: [] }),
  subscribe: () => undefined,
  connected: () => true,
  freshness: alwaysFresh,
  onReconnect: () => undefined,
  close: async () => undefined,
});
