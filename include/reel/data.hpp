// SPDX-License-Identifier: BSD-3-Clause
// Pipelines of data, and readers of files.
#pragma once
#include <reel/data/arrow.hpp>
#include <reel/data/audio.hpp>
#include <reel/data/conllu.hpp>
#include <reel/data/csv.hpp>
#include <reel/data/features.hpp>
#include <reel/data/files.hpp>
#include <reel/data/images.hpp>
#include <reel/data/json.hpp>
#include <reel/data/key.hpp>
#include <reel/data/pipeline.hpp>
#include <reel/data/reader.hpp>
#include <reel/data/records.hpp>
#include <reel/data/sources.hpp>
#include <reel/data/text.hpp>
#include <reel/data/trees.hpp>
#include <reel/data/vocabulary.hpp>
