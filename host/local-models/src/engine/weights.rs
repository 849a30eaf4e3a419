//! Reads tensors into memory, in formats that the CPU computes with fast.

use crate::error::{GgufError, LocalModelError};
use crate::gguf::{GgufHeader, TensorFormat, TensorLocation};
use candle_core::quantized::{GgmlDType, QMatMul, QStorage, QTensor};
use candle_core::{Device, Module as _, Tensor};
use std::borrow::Cow;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::sync::Arc;

impl From<candle_core::Error> for LocalModelError {
    fn from(error: candle_core::Error) -> Self {
        Self::Inference(error.to_string().lines().next().unwrap_or_default().to_owned())
    }
}

/// A matrix that vectors are multiplied with.
#[derive(Debug)]
pub(crate) struct WeightMatrix {
    matrix: QMatMul,
    rows: usize,
    columns: usize,
}

impl WeightMatrix {
    /// Multiplies with vectors that lie one after the other.
    pub(crate) fn apply(&self, vectors: &[f32]) -> Result<Vec<f32>, LocalModelError> {
        let count = vectors.len() / self.columns;
        let input = Tensor::from_slice(vectors, (count, self.columns), &Device::Cpu)?;
        let output = self.matrix.forward(&input)?.flatten_all()?.to_vec1::<f32>()?;
        debug_assert_eq!(output.len(), count * self.rows);
        Ok(output)
    }
}

/// Reads tensors of a file.
pub(crate) struct TensorSource<'f> {
    pub(crate) file: &'f File,
    pub(crate) header: &'f GgufHeader,
}

/// Returns the format in memory. The formats in the second row have no vector instructions in `candle`, so that
/// converting them makes a model two to four times as fast; `Q8_0` has more precision than any of the quantized ones.
pub(crate) fn format_in_memory(format: TensorFormat) -> TensorFormat {
    match format {
        TensorFormat::Q4_1 | TensorFormat::Q5_0 | TensorFormat::Q5_1 => TensorFormat::Q8_0,
        TensorFormat::F16 | TensorFormat::Bf16 => TensorFormat::Q8_0,
        other => other,
    }
}

fn candle_format(format: TensorFormat) -> GgmlDType {
    match format {
        TensorFormat::F32 => GgmlDType::F32,
        TensorFormat::F16 => GgmlDType::F16,
        TensorFormat::Bf16 => GgmlDType::BF16,
        TensorFormat::Q4_0 => GgmlDType::Q4_0,
        TensorFormat::Q4_1 => GgmlDType::Q4_1,
        TensorFormat::Q5_0 => GgmlDType::Q5_0,
        TensorFormat::Q5_1 => GgmlDType::Q5_1,
        TensorFormat::Q8_0 => GgmlDType::Q8_0,
        TensorFormat::Q2K => GgmlDType::Q2K,
        TensorFormat::Q3K => GgmlDType::Q3K,
        TensorFormat::Q4K => GgmlDType::Q4K,
        TensorFormat::Q5K => GgmlDType::Q5K,
        TensorFormat::Q6K => GgmlDType::Q6K,
    }
}

impl TensorSource<'_> {
    fn location(&self, name: &str) -> Result<&TensorLocation, GgufError> {
        self.header.tensor(name).ok_or_else(|| GgufError::Tensor(name.to_owned()))
    }

    fn tensor(&self, name: &str, shape: (usize, usize)) -> Result<QTensor, EngineError> {
        let location = self.location(name)?;
        if location.shape != shape {
            return Err(GgufError::Damaged(format!("the shape of the tensor `{name}`")).into());
        }
        let mut bytes = vec![0; location.bytes as usize];
        let mut file = self.file;
        file.seek(SeekFrom::Start(location.start)).map_err(GgufError::Read)?;
        file.read_exact(&mut bytes).map_err(GgufError::Read)?;
        let storage = QStorage::from_data(Cow::Owned(bytes), &Device::Cpu, candle_format(location.format))?;
        Ok(QTensor::new(storage, shape)?)
    }

    /// Reads a vector.
    pub(crate) fn vector(&self, name: &str, length: usize) -> Result<Vec<f32>, EngineError> {
        let tensor = self.tensor(name, (1, length))?.dequantize(&Device::Cpu)?;
        Ok(tensor.flatten_all()?.to_vec1::<f32>()?)
    }

    /// Reads a vector that some models have.
    pub(crate) fn optional_vector(&self, name: &str, length: usize) -> Result<Option<Vec<f32>>, EngineError> {
        self.header.tensor(name).map(|_| self.vector(name, length)).transpose()
    }

    /// Reads a matrix, which may also be looked up by row.
    pub(crate) fn quantized(&self, name: &str, rows: usize, columns: usize) -> Result<Arc<QTensor>, EngineError> {
        let tensor = self.tensor(name, (rows, columns))?;
        let format = candle_format(format_in_memory(self.location(name)?.format));
        let is_whole = columns.is_multiple_of(format.block_size());
        if format == tensor.dtype() || !is_whole {
            return Ok(Arc::new(tensor));
        }
        Ok(Arc::new(QTensor::quantize(&tensor.dequantize(&Device::Cpu)?, format)?))
    }

    /// Reads a matrix.
    pub(crate) fn matrix(&self, name: &str, rows: usize, columns: usize) -> Result<WeightMatrix, EngineError> {
        matrix_of(self.quantized(name, rows, columns)?, rows, columns)
    }
}

/// Makes a matrix of a tensor.
pub(crate) fn matrix_of(tensor: Arc<QTensor>, rows: usize, columns: usize) -> Result<WeightMatrix, EngineError> {
    Ok(WeightMatrix { matrix: QMatMul::from_arc(tensor)?, rows, columns })
}

/// A file is unusable, or the engine failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EngineError {
    #[error(transparent)]
    File(#[from] GgufError),
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
}
